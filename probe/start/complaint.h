/* The message on stderr of a process whose probe does not record. */
#ifndef OFFHEAP_COMPLAINT_H
#define OFFHEAP_COMPLAINT_H

/* Says that nothing is recorded, and why: enum probe_error.  Allocates nothing. */
void probe_complain(int error);

#endif
