/* The end of the process, or of its VM, while something records. */
#ifndef OFFHEAP_END_H
#define OFFHEAP_END_H

/* What is live now is what the process leaves behind.  Nothing is recorded any more, since the
 * destructors of C++ statics will free what was leaked into them.  Also the library's destructor. */
void probe_end(void);

#endif
