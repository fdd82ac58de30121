/* Listens to the hooks of the dynamic linker and to the agent, and reacts. */
#ifndef OFFHEAP_LISTENING_H
#define OFFHEAP_LISTENING_H

/* Registers with both.  A second call is harmless. */
void listening_begin(void);
/* Modules have come or gone: gives them rows, opens their files, patches their GOTs. */
void listening_modules_changed(void);

#endif
