/*
 * The first allocation of a process wakes a preloaded probe: constructors of other libraries, which allocate,
 * run before the probe's.  Nothing can set a pointer before that, so this is the only function that a room
 * declares and a room above it (start/preload.c) defines.
 */
#ifndef OFFHEAP_WAKE_H
#define OFFHEAP_WAKE_H

#include <stdbool.h>

/* Reads the environment of a preloaded probe, and starts a recording if the environment requests one.  Only the first
 * call does anything.  True when this call has started a recording. */
bool probe_wake(void);

#endif
