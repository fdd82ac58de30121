/* Hooks of the dynamic linker's calls: they report loads and unloads, and hand out hooks by name. */
#ifndef OFFHEAP_DL_HOOKS_H
#define OFFHEAP_DL_HOOKS_H

#include <stdbool.h>

/* Each hook has the parameters and the result of the function that it replaces. */
void *hook_dlopen(const char *file, int mode);
int hook_dlclose(void *handle);
void *hook_dlsym(void *handle, const char *name);

/* The receiver of these reports, and the source of dlsym's answers, so that the hooks need not know the rooms above. */
struct dl_listener {
    void (*jvm_loading)(void);     /* libjvm is about to be loaded */
    void (*modules_coming)(void);  /* a dlopen begins, and the hook does not see its end */
    void (*modules_changed)(void); /* a dlopen has ended */
    void (*modules_closed)(void);  /* a dlclose has ended */
    bool (*hands_out_hooks)(void); /* may dlsym answer with a hook? */
    void *(*hook_of)(const char *symbol);
    void *(*create_vm)(void *found); /* dlsym's answer for JNI_CreateJavaVM */
};
/* Sets the listener, which must stay valid.  Before this call the hooks only pass calls on. */
void dl_hooks_serve(const struct dl_listener *listener);

#endif
