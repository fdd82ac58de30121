/*
 * The mean bytes between sampled Java objects.  HotSpot draws the countdown of each thread; the probe only sets the
 * mean.  Interval codes from OFFHEAP_JAVA_CODE on, an octave apart, name the means.
 *
 * A thread keeps the mean that its countdown was drawn with, so its next object carries the code of the thread's
 * previous object.  The probe does not know when the countdown for a thread's first object was drawn; that object gets
 * the present code.
 */
#ifndef OFFHEAP_OBJECT_INTERVAL_H
#define OFFHEAP_OBJECT_INTERVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jvm/jvmti.h"
#include "options.h"

/* Writes the intervals that may be chosen into the live file.  Call before the first event. */
void object_interval_start(const struct options *options);
/* Tells HotSpot the present mean. */
void object_interval_apply(jvmtiEnv *jvmti);
/* Gives HotSpot its own mean back. */
void object_interval_restore(jvmtiEnv *jvmti);

/* Returns the code of the object that the calling thread has just allocated.  Call it once for each object. */
uint8_t object_interval_code(void);
/* The inclusion probability of an object of `size` bytes under a code. */
double object_probability(size_t size, uint8_t code);

/* Charges a sample that began when the calling thread had used `began` ns of CPU time. */
void object_interval_spend(uint64_t began);
/* Moves the mean when a second has passed.  `sparse`: there is room for more objects.  For the agent thread. */
void object_interval_move(jvmtiEnv *jvmti, bool sparse);
/* Raises the code to `code` at least.  The code falls below `code` again only when objects_sparse() is true. */
void object_interval_rise(jvmtiEnv *jvmti, uint8_t code);

#endif
