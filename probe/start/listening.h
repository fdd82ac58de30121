/* What the hooks of the dynamic linker and the agent tell, and what follows from it. */
#ifndef OFFHEAP_LISTENING_H
#define OFFHEAP_LISTENING_H

/* From now on both tell.  Calling it again is harmless. */
void listening_begin(void);
/* Modules have come, or gone: gives them rows, opens their files, patches their GOTs. */
void listening_modules_changed(void);

#endif
