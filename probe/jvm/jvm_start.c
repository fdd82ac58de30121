#define _GNU_SOURCE
#include "jvm/jvm_start.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "jvm/java_frames.h"

typedef jint create_vm_function(JavaVM **vm, JNIEnv **env, void *args);
static _Atomic(create_vm_function *) create_vm;
typedef void created_function(JavaVM *vm, JNIEnv *env);
static _Atomic(created_function *) tell_created;

static jint create_vm_and_tell(JavaVM **vm, JNIEnv **env, void *args) {
    jint error = atomic_load(&create_vm)(vm, env, args);
    created_function *tell = atomic_load(&tell_created);
    if (error == JNI_OK) tell(*vm, *env);
    return error;
}

void *jvm_start_intercept(void *found, created_function *created) {
    if (!found) return NULL;
    atomic_store(&tell_created, created);
    atomic_store(&create_vm, (create_vm_function *)found);
    return (void *)create_vm_and_tell;
}

/* HotSpot starts "VM Periodic Task Thread" last.  The kernel keeps 15 bytes of its name, and JDK 26 shortens it in
 * the middle. */
static bool has_periodic_thread(void) {
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks) return false;
    bool found = false;
    for (struct dirent *task; !found && (task = readdir(tasks));) {
        char path[64], name[16] = "";
        snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", task->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        if (read(fd, name, sizeof name) == sizeof name)
            found = memcmp(name, "VM Periodic Tas", 15) == 0 || memcmp(name, "VM Peri..Thread", 15) == 0;
        close(fd);
    }
    closedir(tasks);
    return found;
}

/* Before JDK 22 (JDK-8308341) JNI_GetCreatedJavaVMs also returns a VM that is still in creation, and an attach to
 * that VM crashes it.  A VM without periodic work (-XX:-UsePerfData) never starts the periodic thread, so after a grace
 * period the probe trusts JNI. */
JavaVM *jvm_start_poll(int waited_ms) {
    enum { GRACE_MS = 10000 };
    JavaVM *vm = java_created_vm();
    return vm && (waited_ms >= GRACE_MS || has_periodic_thread()) ? vm : NULL;
}
