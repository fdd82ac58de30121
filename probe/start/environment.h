/* The environment of a preloaded probe: what it requests, and what children inherit. */
#ifndef OFFHEAP_ENVIRONMENT_H
#define OFFHEAP_ENVIRONMENT_H

#include <stdbool.h>

/* Is this process a Java launcher (or linked with libjvm)? */
bool environment_is_java(void);
/* Removes this library from LD_PRELOAD (others stay) and OFFHEAP from the environment. */
void environment_leave(void);
/* The first puts environment_leave off until the second call, when a JVM is loaded: a launcher that executes itself
 * again must still find the variables. */
void environment_leave_later(void);
void environment_leave_if_due(void);

#endif
