/* The dynamic linker's calls: they follow what is loaded and hand out hooks by name. */
#ifndef OFFHEAP_DL_HOOKS_H
#define OFFHEAP_DL_HOOKS_H

#include <stdbool.h>

void *hook_dlopen(const char *file, int mode);
int hook_dlclose(void *handle);
void *hook_dlsym(void *handle, const char *name);

/* Whom these calls tell, and what dlsym answers.  So the hooks need not know the rooms above them. */
struct dl_listener {
    void (*jvm_loading)(void);     /* libjvm is about to be loaded */
    void (*modules_coming)(void);  /* a dlopen begins whose end the hook does not see */
    void (*modules_changed)(void); /* a dlopen has ended */
    void (*modules_closed)(void);  /* a dlclose has ended */
    bool (*hands_out_hooks)(void); /* may dlsym answer with a hook? */
    void *(*hook_of)(const char *symbol);
    void *(*create_vm)(void *found); /* what dlsym answers for JNI_CreateJavaVM */
};
/* `listener` stays.  Until this call the hooks only pass on. */
void dl_hooks_serve(const struct dl_listener *listener);

#endif
