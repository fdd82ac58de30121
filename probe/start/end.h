/* The end of the process, or of its VM, while something records. */
#ifndef OFFHEAP_END_H
#define OFFHEAP_END_H

/* Ends the recording: the blocks that are live now are what the process leaves behind.  Nothing is recorded any more,
 * since the destructors of C++ statics free leaks that the statics hold.  Also the library's destructor. */
void probe_end(void);

#endif
