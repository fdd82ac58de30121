/* The end of the process, or of its VM, while something records. */
#ifndef OFFHEAP_END_H
#define OFFHEAP_END_H

/* Ends the recording: the blocks that are live now are what the process leaves behind.  Nothing is recorded afterwards,
 * since the destructors of C++ statics free leaks that the statics hold.  It is also the library's destructor. */
void probe_end(void);

#endif
