/* The dynamic linker's calls: to follow what is loaded and to hand out hooks by name. */
#ifndef OFFHEAP_DL_HOOKS_H
#define OFFHEAP_DL_HOOKS_H

void *hook_dlopen(const char *file, int mode);
int hook_dlclose(void *handle);
void *hook_dlsym(void *handle, const char *name);

#endif
