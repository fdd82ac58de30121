/* An agent that allocates 100 bytes each time HotSpot tells of an object. */
#include <stdlib.h>

#include "jvm/jvmti.h"

enum {
    CAN_SAMPLE = 43, /* bit of the capabilities */
    INTERVAL = 65536,
};

static void *volatile kept;

static void sampled(jvmtiEnv *jvmti, JNIEnv *env, jthread thread, jobject object, jclass class, jlong size) {
    (void)jvmti, (void)env, (void)thread, (void)object, (void)class, (void)size;
    kept = malloc(100);
}

__attribute__((visibility("default"))) jint Agent_OnLoad(JavaVM *vm, char *options, void *reserved) {
    (void)options, (void)reserved;
    jvmtiEnv *jvmti;
    jvmtiEventCallbacks callbacks = {0};
    callbacks.sampled_object = sampled;
    jvmtiCapabilities can = {.bits = {[CAN_SAMPLE / 32] = UINT32_C(1) << CAN_SAMPLE % 32}};
    if (vm_get_env(vm, &jvmti, JVMTI_VERSION_11) || jvmti_add_capabilities(jvmti, &can) ||
        jvmti_set_callbacks(jvmti, &callbacks))
        return 1;
    jint interval_set = jvmti_sampling_interval(jvmti, INTERVAL);
    return interval_set || jvmti_set_event(jvmti, JVMTI_ENABLE, JVMTI_SAMPLED_OBJECT);
}

__attribute__((visibility("default"))) jint Agent_OnAttach(JavaVM *vm, char *options, void *reserved) {
    return Agent_OnLoad(vm, options, reserved);
}
