/* Thread names: one row for each distinct name; each thread keeps its row in its thread_state. */
#ifndef OFFHEAP_THREADS_H
#define OFFHEAP_THREADS_H

#include <stdint.h>

/* Forgets every row, for a new live file. */
void threads_start(void);

/* The calling thread's row in THREADS. Signal-safe; the first call reads the kernel's name for it. */
uint16_t thread_row(void);
/* Gives the calling thread a (longer) name, e.g. Java's own at JVMTI ThreadStart. */
void thread_rename(const char *name);

#endif
