/* The end of the process, or of its VM, while something records. */
#ifndef OFFHEAP_END_H
#define OFFHEAP_END_H

/* Ends the recording: what is live now is what the process leaves behind.  From now on nothing is recorded, since
 * the destructors of C++ statics free what was leaked into them.  Also the library's destructor. */
void probe_end(void);

#endif
