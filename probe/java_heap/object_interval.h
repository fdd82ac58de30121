/*
 * The mean bytes between sampled Java objects.  HotSpot draws the countdown of each thread; the probe only sets the
 * mean.  Interval codes from OFFHEAP_JAVA_CODE on, an octave apart, name the means.
 *
 * A thread keeps the mean that its countdown was drawn with, so its next object carries the code of the thread's
 * previous object.  Of a thread's first object the probe does not know when the countdown was drawn; the object gets
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

/* The code of the object that the calling thread has just allocated; once an object. */
uint8_t object_interval_code(void);
/* The inclusion probability of an object of `size` bytes under a code. */
double object_probability(size_t size, uint8_t code);

/* The CPU time in ns of a sample, which began when the thread had used `began`. */
void object_interval_spend(uint64_t began);
/* Moves the mean when a second has passed; `sparse`: there is room for more objects.  For the agent thread. */
void object_interval_move(jvmtiEnv *jvmti, bool sparse);
/* No code below `code` as long as there is no room. */
void object_interval_rise(jvmtiEnv *jvmti, uint8_t code);

#endif
