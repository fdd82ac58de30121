/* Thread names: one row for each distinct name; each thread keeps its row in its thread_state. */
#ifndef OFFHEAP_THREADS_H
#define OFFHEAP_THREADS_H

#include <stdint.h>

/* Forgets every row, for a new live file. */
void threads_start(void);

/* The calling thread's row in THREADS. Signal-safe.  The 1st, 2nd, 4th ... 128th call of a thread asks the kernel for
 * the thread's name. */
uint16_t thread_row(void);
/* Gives the calling thread a (longer) name, e.g. Java's own at JVMTI ThreadStart. */
void thread_rename(const char *name);

#endif
