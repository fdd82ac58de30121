/* Attach: GOT slots of every module now point at our hooks; detach puts the old values back. */
#ifndef OFFHEAP_GOT_H
#define OFFHEAP_GOT_H

#include <stddef.h>

struct got_hook {
    const char *symbol;
    void *hook; /* what the slot shall hold */
};

/* Patches every slot of every loaded module (ours and the dynamic linker excepted) that names one of
 * `hooks` (the last has symbol == NULL), a table that stays.  Waits for dlopens in progress: not for a signal handler.
 * Modules still being relocated by another thread's dlopen are never touched (see got.c).
 * Returns how many slots are patched now, or -1. */
long got_patch(const struct got_hook *hooks);
/* After a dlopen: patches what is new, and forgets the slots of modules that went.  Does nothing before
 * got_patch or after got_restore, also when that comes meanwhile. */
long got_follow(void);
/* Restores the old value of every patched slot whose module is still loaded. Returns how many. */
long got_restore(void);

#endif
