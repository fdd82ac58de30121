/* Guards the live file: the state of the recording, and the threads inside the probe. */
#ifndef OFFHEAP_GUARD_H
#define OFFHEAP_GUARD_H

#include <stdbool.h>

/* The state of the recording.  GUARD_STOPPING: hooks pass every call on; the agent still describes the JVM. */
enum guard_state { GUARD_IDLE, GUARD_RECORDING, GUARD_STOPPING };
enum guard_state guard_state(void);
/* Does this process have a live file?  A forked child has the state of its parent, but not the file. */
bool guard_is_recording(void);

/* Between guard_enter and guard_leave a hook may touch the live file; a stop unmaps it when no thread is inside.
 * guard_enter is false when nothing records, in a forked child, and inside the probe itself (a signal handler, an
 * allocation by a function that the probe calls); then the hook only passes the call on.  Signal-safe. */
bool guard_enter(void);
void guard_leave(void);
/* Between guard_enter and guard_leave: a number below 256 that no other thread has, or -1 if there is none. */
int guard_lane(void);
/* Like guard_enter, for the removal of a block from the table.  The call may nest, since the probe must not miss a free
 * by a signal handler that runs inside the probe. */
bool guard_enter_nested(void);
void guard_leave_nested(void);
/* Like guard_enter, and also true during a stop: for code that describes the JVM and its methods. */
bool guard_enter_to_describe(void);

/* The rest is for start/, which starts and stops one recording at a time. */

/* Makes this process the owner of its recordings.  Call it before anything is recorded.  False: there is no memory. */
bool guard_prepare(void);
/* Sets the state, by which guard_enter decides from then on. */
void guard_set_state(enum guard_state state);
/* Waits until no thread is inside, 2 s at most.  False: a thread is still inside, or that is unknown. */
bool guard_wait_until_outside(void);

#endif
