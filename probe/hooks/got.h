/* Attach points the GOT slots of every module at the hooks; detach restores the old values. */
#ifndef OFFHEAP_GOT_H
#define OFFHEAP_GOT_H

#include <stddef.h>

struct got_hook {
    const char *symbol;
    void *hook; /* the slot's new value */
};

/* Patches every slot of every loaded module (except this library and the dynamic linker) that names one of `hooks`, a
 * table that must stay valid and whose last entry has symbol == NULL.  Waits for dlopens in progress: do not call it
 * from a signal handler.  Skips modules that another thread's dlopen is still relocating (see got.c).  Returns how many
 * slots are patched now, or -1. */
long got_patch(const struct got_hook *hooks);
/* After a dlopen: patches new modules, and forgets the slots of unloaded ones.  Does nothing before got_patch or after
 * got_restore, also if got_restore runs at the same time.  Returns as got_patch, 0 if it does nothing. */
long got_follow(void);
/* Restores the old value of every patched slot whose module is still loaded. Returns how many. */
long got_restore(void);

#endif
