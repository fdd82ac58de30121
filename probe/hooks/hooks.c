#include "hooks/hooks.h"

#include <string.h>

#include "hooks/dl_hooks.h"
#include "hooks/malloc_hooks.h"
#include "hooks/mmap_hooks.h"

#define hook_mmap64 hook_mmap

#define SAMPLED(name) {#name, (void *)hook_##name},
static const struct got_hook sampled_hooks[] = {OFFHEAP_HOOKS(SAMPLED){NULL, NULL}};

#define exact_free hook_free
#define exact_cfree hook_cfree
#define exact_free_sized hook_free_sized
#define exact_free_aligned_sized hook_free_aligned_sized
#define exact_mmap hook_mmap
#define exact_mmap64 hook_mmap
#define exact_munmap hook_munmap
#define exact_mremap hook_mremap
#define exact_dlopen hook_dlopen
#define exact_dlclose hook_dlclose
#define exact_dlsym hook_dlsym
#define EXACT(name) {#name, (void *)exact_##name},
static const struct got_hook exact_hooks[] = {OFFHEAP_HOOKS(EXACT){NULL, NULL}};

void *hook_of(const char *symbol) {
    for (const struct got_hook *hook = sampled_hooks; hook->symbol; hook++)
        if (strcmp(hook->symbol, symbol) == 0) return hook->hook;
    return NULL;
}

static bool preloaded;
void hooks_note_preload(void) { preloaded = true; }
bool hooks_preloaded(void) { return preloaded; }

const struct got_hook *hooks_to_patch(bool exact) { return exact ? exact_hooks : sampled_hooks; }
