/*
 * The first allocation of a process wakes a preloaded probe: other libraries' constructors, which allocate,
 * run before ours.  No pointer can be set before that, so this is the one function that a room declares and
 * another above it (start/preload.c) defines.
 */
#ifndef OFFHEAP_WAKE_H
#define OFFHEAP_WAKE_H

#include <stdbool.h>

/* Looks at the environment of a preloaded probe, and starts a recording if the environment asks for one.  Only the
 * first call does anything.  True when this call has started a recording. */
bool probe_wake(void);

#endif
