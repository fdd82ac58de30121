/* Who may touch the live file, and when: the state of the recording, and the threads that are inside. */
#ifndef OFFHEAP_GUARD_H
#define OFFHEAP_GUARD_H

#include <stdbool.h>

/* GUARD_STOPPING: hooks pass every call on, and the JVM is still described. */
enum guard_state { GUARD_IDLE, GUARD_RECORDING, GUARD_STOPPING };
enum guard_state guard_state(void);
/* Has this process a live file?  A forked child has the state of its parent, but not the file. */
bool guard_is_recording(void);

/* Between guard_enter and guard_leave a hook may touch the live file, which is unmapped when nobody is inside.
 * guard_enter is false when nothing records, in a forked child, and inside the probe itself (a signal handler, an
 * allocation by something that the probe calls); then the hook only passes the call on.  Signal-safe. */
bool guard_enter(void);
void guard_leave(void);
/* Between the two: a number below 256 that no other thread has at that time, or -1 if there is none. */
int guard_lane(void);
/* The same for taking a block out of the table.  It may nest, since a free by a signal handler inside the probe must
 * not be missed. */
bool guard_enter_nested(void);
void guard_leave_nested(void);
/* As guard_enter, and also true while a recording is being stopped: for code that describes the JVM and its methods. */
bool guard_enter_to_describe(void);

/* The rest is for start/, which starts and stops one recording at a time. */

/* Call before anything is recorded in this process.  False: there is no memory. */
bool guard_prepare(void);
void guard_set_state(enum guard_state state);
/* Waits until every hook has let go of the live file, 2 s at most.  False: a thread is still inside, or it cannot be
 * known. */
bool guard_wait_until_outside(void);

#endif
