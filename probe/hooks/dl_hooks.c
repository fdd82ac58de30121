/*
 * dlopen, dlclose, dlsym.
 *
 * dlopen and dlsym look at their return address: RUNPATH and $ORIGIN are those of the
 * calling image, RTLD_NEXT and RTLD_DEFAULT search from it.  A wrapper would put ours in
 * its place.  So whatever may depend on the caller is a tail call, which leaves
 * the caller's return address where it was; only a path with a slash (all that HotSpot
 * ever loads) and names of our own hooks are looked at after the call.
 */
#define _GNU_SOURCE
#include "hooks/dl_hooks.h"

#include <string.h>

#include "hooks/hooks.h"
#include "jvm/java.h"
#include "jvm/jvm_start.h"
#include "store/modules.h"
#include "hooks/next.h"
#include "start/probe.h"

#if defined(__clang__)
#define TAIL_CALL __attribute__((musttail)) return
#else
#define TAIL_CALL return /* -foptimize-sibling-calls, part of -O2 */
#endif

static const void *const search_next = (void *)-1l; /* RTLD_NEXT */

void *hook_dlopen(const char *file, int mode) {
    bool jvm = file && strstr(file, "libjvm.so");
    if (jvm) probe_jvm_loading();
    if (!file || !strchr(file, '/') || strchr(file, '$')) {
        if (file) agent_wake(); /* it looks for new modules when this call has ended */
        TAIL_CALL next.dlopen(file, mode);
    }
    void *handle = next.dlopen(file, mode);
    if (handle) probe_modules_changed();
    return handle;
}

int hook_dlclose(void *handle) {
    int error = next.dlclose(handle);
    if (!error) probe_modules_closed();
    return error;
}

static __attribute__((noinline)) void *hooked_symbol(void *handle, const char *name, void *hook) {
    void *found = next.dlsym(handle, name);
    return found && found == next_of(name) ? hook : found;
}

void *hook_dlsym(void *handle, const char *name) {
    /* Never asked of RTLD_NEXT: the launcher has libjvm's handle. */
    if (name && strcmp(name, "JNI_CreateJavaVM") == 0 && probe_hands_out_hooks())
        return jvm_start_intercept(name, next.dlsym(handle, name));
    void *hook = name && handle != search_next ? hook_of(name) : NULL;
    if (hook && probe_hands_out_hooks()) return hooked_symbol(handle, name, hook);
    TAIL_CALL next.dlsym(handle, name);
}

EXPORT extern __typeof__(hook_dlopen) dlopen __attribute__((alias("hook_dlopen")));
EXPORT extern __typeof__(hook_dlclose) dlclose __attribute__((alias("hook_dlclose")));
EXPORT extern __typeof__(hook_dlsym) dlsym __attribute__((alias("hook_dlsym")));
