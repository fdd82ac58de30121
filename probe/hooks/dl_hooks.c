/*
 * dlopen, dlclose, dlsym.
 *
 * dlopen and dlsym use their return address: RUNPATH and $ORIGIN are those of the calling image, and RTLD_NEXT and
 * RTLD_DEFAULT search from it.  A wrapper would make this library the caller.  So every call that may depend on the
 * caller is a tail call, which keeps the caller's return address in place.  A hook works after the call only for a path
 * with a slash (HotSpot loads no other) and for the names of the hooks.
 */
#define _GNU_SOURCE
#include "hooks/dl_hooks.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "hooks/next_allocator.h"
#include "platform/compiler.h"

#if defined(__clang__)
#define TAIL_CALL __attribute__((musttail)) return
#else
#define TAIL_CALL return /* -foptimize-sibling-calls, part of -O2 */
#endif

static const void *const search_next = (void *)-1l; /* RTLD_NEXT */

static _Atomic(const struct dl_listener *) listening;

void dl_hooks_serve(const struct dl_listener *listener) { atomic_store(&listening, listener); }

static const struct dl_listener *told(void) { return atomic_load_explicit(&listening, memory_order_acquire); }

void *hook_dlopen(const char *file, int mode) {
    const struct dl_listener *to = told();
    if (to && file && strstr(file, "libjvm.so")) to->jvm_loading();
    if (!file || !strchr(file, '/') || strchr(file, '$')) {
        if (to && file) to->modules_coming();
        TAIL_CALL next.dlopen(file, mode);
    }
    void *handle = next.dlopen(file, mode);
    if (to && handle) to->modules_changed();
    return handle;
}

int hook_dlclose(void *handle) {
    const struct dl_listener *to = told();
    int error = next.dlclose(handle);
    if (to && !error) to->modules_closed();
    return error;
}

static __attribute__((noinline)) void *hooked_symbol(void *handle, const char *name, void *hook) {
    void *found = next.dlsym(handle, name);
    return found && found == next_of(name) ? hook : found;
}

void *hook_dlsym(void *handle, const char *name) {
    /* No caller uses RTLD_NEXT for JNI_CreateJavaVM: the launcher has libjvm's handle. */
    const struct dl_listener *to = told();
    bool handing_out = to && name && to->hands_out_hooks();
    if (handing_out && strcmp(name, "JNI_CreateJavaVM") == 0) return to->create_vm(next.dlsym(handle, name));
    void *hook = handing_out && handle != search_next ? to->hook_of(name) : NULL;
    if (hook) return hooked_symbol(handle, name, hook);
    TAIL_CALL next.dlsym(handle, name);
}

EXPORT extern __typeof__(hook_dlopen) dlopen __attribute__((alias("hook_dlopen")));
EXPORT extern __typeof__(hook_dlclose) dlclose __attribute__((alias("hook_dlclose")));
EXPORT extern __typeof__(hook_dlsym) dlsym __attribute__((alias("hook_dlsym")));
