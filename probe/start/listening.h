/* Listens to the hooks of the dynamic linker and to the agent, and reacts. */
#ifndef OFFHEAP_LISTENING_H
#define OFFHEAP_LISTENING_H

/* Registers with the hooks and the agent.  A second call is harmless. */
void listening_begin(void);
/* Call it when modules have come or gone.  Gives new modules rows, opens their files, patches their GOTs. */
void listening_modules_changed(void);

#endif
