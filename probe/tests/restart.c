/* A preloaded probe that records a second time: after a stop, or (with a libjvm to load) after the death of a VM.
 * Arguments: the options of the second recording, and the libjvm. */
#include <dlfcn.h>
#include <jni.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *volatile sink;

static int live_and_die(const char *path) {
    void *libjvm = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!libjvm) return 1;
    jint (*create)(JavaVM **, void **, void *) =
        (jint (*)(JavaVM **, void **, void *))dlsym(libjvm, "JNI_CreateJavaVM");
    JavaVM *vm;
    void *env;
    JavaVMOption options[] = {{"-Xmx32m", NULL}, {"-XX:+UseSerialGC", NULL}};
    JavaVMInitArgs request = {JNI_VERSION_1_8, 2, options, JNI_FALSE};
    return create(&vm, &env, &request) || (*vm)->DestroyJavaVM(vm);
}

int main(int count, char **arguments) {
    int (*start)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "offheap_start");
    int (*stop)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "offheap_stop");
    if (count < 2 || !start || !stop) return 2;
    if (count > 2 && live_and_die(arguments[2])) return 3;
    if (count == 2) stop();
    for (int i = 0; i < 1000; i++) sink = malloc(1000);
    if (start(arguments[1])) return 4;
    for (int i = 0; i < 300; i++) sink = malloc(1000); /* more than 256 KiB: ends the old countdown */
    for (int i = 0; i < 2000; i++) sink = malloc(777);
    stop();
    fflush(stdout);
    _exit(0);
}
