/* An agent that asks method_ids.c about every method of the loaded classes, and about words that are none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "jvm/method_ids.h"

static struct vm_code_layout layout;

static int ask_all(jvmtiEnv *jvmti, unsigned *wrong) {
    jint classes = 0, count;
    jclass *loaded;
    jmethodID *methods;
    int asked = 0;
    if (jvmti_loaded_classes(jvmti, &classes, &loaded) != JNI_OK) return 0;
    for (jint i = 0; i < classes; i++) {
        if (jvmti_class_methods(jvmti, loaded[i], &count, &methods) != JNI_OK) continue; /* not prepared yet */
        for (jint k = 0; k < count; k++, asked++) *wrong += !method_id_sound(methods[k]);
    }
    return asked;
}

static void vm_init(jvmtiEnv *jvmti, JNIEnv *env, jthread thread) {
    (void)thread;
    jclass class = jni_find_class(env, "java/lang/Thread");
    jmethodID known = jni_static_method(env, class, "currentThread", "()Ljava/lang/Thread;");
    void *libjvm = dlopen("libjvm.so", RTLD_NOW | RTLD_NOLOAD);
    struct link_map *image;
    if (!libjvm || dlinfo(libjvm, RTLD_DI_LINKMAP, &image) != 0 || !vm_code_layout_read(image, &layout)) {
        puts("no layout");
        return;
    }
    method_ids_begin(&layout, known);
    /* What stands behind a class's ids: sizes and addresses of malloc's, other addresses, remains of all sorts. */
    uintptr_t block[4] = {(uintptr_t)block, (uintptr_t)&block[2], (uintptr_t)libjvm, (uintptr_t)class};
    uintptr_t *heap = malloc(4096);
    for (int i = 0; i < 512; i++) heap[i] = (uintptr_t)&heap[(i * 7) % 512];
    const uintptr_t others[] = {0, 1, 0x145, 0x37, (uintptr_t)block, (uintptr_t)heap, (uintptr_t)heap + 4,
                                (uintptr_t)libjvm, (uintptr_t)env, (uintptr_t)class, *(uintptr_t *)known,
                                (uintptr_t)known + 4, (uintptr_t)1 << 46, UINTPTR_MAX - 7, 0xabababababababab};
    unsigned accepted = 0, wrong = 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) accepted += method_id_sound((jmethodID)others[i]);
    int asked = ask_all(jvmti, &wrong);
    printf("methods %d refused %u, others %zu accepted %u\n", asked, wrong, sizeof others / sizeof *others, accepted);
    free(heap);
}

__attribute__((visibility("default"))) jint Agent_OnLoad(JavaVM *vm, char *options, void *reserved) {
    (void)options, (void)reserved;
    jvmtiEnv *jvmti;
    static const jvmtiEventCallbacks callbacks = {.vm_init = vm_init};
    return vm_get_env(vm, &jvmti, JVMTI_VERSION_11) || jvmti_set_callbacks(jvmti, &callbacks) ||
           jvmti_set_event(jvmti, JVMTI_ENABLE, JVMTI_VM_INIT);
}
