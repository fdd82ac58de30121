/* Who may touch the live file, and when: the recording's state, and who is inside. */
#ifndef OFFHEAP_GUARD_H
#define OFFHEAP_GUARD_H

#include <stdbool.h>

/* STOPPING: hooks let everything pass already, and the JVM is described still. */
enum guard_state { GUARD_IDLE, GUARD_RECORDING, GUARD_STOPPING };
enum guard_state guard_state(void);
/* Is there a live file of this process?  The state alone is also that of a forked child, whose parent has it. */
bool guard_is_recording(void);

/* Between guard_enter and guard_leave a hook may touch the live file: it is unmapped when nobody is
 * inside any more.  guard_enter is false when nothing records, in a forked child, and inside the probe
 * itself (a signal handler, an allocation by something the probe calls); then the hook only passes the
 * call on.  Signal-safe. */
bool guard_enter(void);
void guard_leave(void);
/* Between the two: a number below 256 that no other thread has meanwhile, or -1 if there is none for it. */
int guard_lane(void);
/* The same for taking a block out, which must not be missed when a signal handler
 * frees inside the probe: it may nest. */
bool guard_enter_nested(void);
void guard_leave_nested(void);
/* As guard_enter, and also while a recording is being stopped: for what describes the JVM and its methods. */
bool guard_enter_to_describe(void);

/* The rest is for who starts and stops recordings, one at a time. */

/* Before anything is recorded in this process.  False: there is no memory. */
bool guard_prepare(void);
void guard_set_state(enum guard_state state);
/* Waits until every hook has let go of the live file, 2 s at most.  False: some thread has not, or that is not known. */
bool guard_wait_until_outside(void);

#endif
