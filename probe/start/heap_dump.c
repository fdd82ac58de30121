/*
 * jemalloc writes a heap profile only if its own process asks for one: mallctl(3), "prof.dump".
 */
#define _GNU_SOURCE
#include "start/heap_dump.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

#include "errors.h"

typedef int mallctl_function(const char *name, void *old, size_t *old_size, void *new, size_t new_size);

/* Tries the names of jemalloc's own build and of distributions that keep libc's malloc beside it.  A jemalloc that a
 * library has linked for itself is not in the global scope, so find_mallctl does not find it. */
static mallctl_function *find_mallctl(void) {
    static const char *const names[] = {"mallctl", "je_mallctl"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *found = dlsym(RTLD_DEFAULT, names[i]);
        if (found) return (mallctl_function *)found;
    }
    return NULL;
}

int heap_dump(const char *file) {
    mallctl_function *mallctl = find_mallctl();
    bool profiles = false;
    size_t size = sizeof profiles;
    if (!mallctl || mallctl("opt.prof", &profiles, &size, NULL, 0) != 0 || !profiles) return PROBE_NO_PROFILER;
    return mallctl("prof.dump", NULL, NULL, &file, sizeof file) == 0 ? PROBE_OK : PROBE_CANNOT_CREATE;
}
