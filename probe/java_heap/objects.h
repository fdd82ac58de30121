/*
 * The followed objects: a slot each, with a weak reference and the object's row.  The live file has the rows too, but
 * no references.  Allocating threads fill slots; only the agent thread empties them.
 *
 *   free -> reserved -> followed -> (dead, or thinned out) -> free
 */
#ifndef OFFHEAP_OBJECTS_H
#define OFFHEAP_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jvm/jvmti.h"

/* Makes room for `most` objects, a power of two, or for fewer where memory is short.  The objects are thinned if they
 * take more than `most_bytes` together.  False: there is no room. */
bool objects_start(uint64_t most, uint64_t most_bytes);
/* Gives up all references and slots.  Call it when no thread is in objects_follow. */
void objects_stop(JNIEnv *env);

/* Follows an object; between guard_enter and guard_leave.  False: there is no slot, or no room in the live table. */
bool objects_follow(JNIEnv *env, jobject object, size_t size, uint8_t code, uint32_t stack);

/* The rest is for the agent thread, with the live file mapped. */

/* Removes objects that have died. */
void objects_sweep(JNIEnv *env);
/* Are so many slots in use, or are the objects so large, that they must be thinned? */
bool objects_crowded(void);
/* Is there room for twice the present objects, twice over? */
bool objects_sparse(void);
/* Removes objects at random until the rest takes at most half of the room.  Returns a code; the rest gets this code at
 * least, as if it had been sampled under it.  `seed` moves on. */
uint8_t objects_thin(JNIEnv *env, uint64_t *seed);

#endif
