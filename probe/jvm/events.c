#define _GNU_SOURCE
#include "jvm/events.h"

#include <stddef.h>

#include "guard/thread_state.h"
#include "store/threads.h"

static JavaVM *jvm;
static jvmtiEnv *jvmti;
static const struct vm_listener *told;

/* HotSpot's allocations here are not recorded, since the probe causes them.  HotSpot never frees the table of ids of an
 * unloaded class loader (ClassLoaderData::~ClassLoaderData), which would look like a leak of the program. */
static void make_method_ids(jvmtiEnv *env, jclass class) {
    jint count;
    jmethodID *methods;
    uint8_t before = self.inside;
    self.inside = THREAD_OWN_DOING;
    /* An error is no loss: the class is an array, or not prepared yet, and then its event follows. */
    if (jvmti_class_methods(env, class, &count, &methods) == JNI_OK) jvmti_deallocate(env, methods);
    self.inside = before;
}

static void on_vm_init(jvmtiEnv *env, JNIEnv *jni, jthread thread) {
    (void)env, (void)thread;
    told->init(jvm, jni);
}

static void on_vm_death(jvmtiEnv *env, JNIEnv *jni) {
    (void)env;
    told->death(jni);
}

static void rename_current_thread(jvmtiEnv *env) {
    jvmtiThreadInfo info;
    if (jvmti_thread_info(env, NULL, &info) != JNI_OK) return;
    if (info.name) {
        thread_rename(info.name);
        jvmti_deallocate(env, info.name);
    }
}

/* The new thread itself posts the event.  Without can_support_virtual_threads only platform threads do. */
static void on_thread_start(jvmtiEnv *env, JNIEnv *jni, jthread thread) {
    (void)jni, (void)thread;
    rename_current_thread(env);
}

/* AsyncGetCallTrace refuses (-1) unless an agent enables this event. */
static void on_class_load(jvmtiEnv *env, JNIEnv *jni, jthread thread, jclass class) {
    (void)env, (void)jni, (void)thread, (void)class;
}

static void on_class_prepare(jvmtiEnv *env, JNIEnv *jni, jthread thread, jclass class) {
    (void)jni, (void)thread;
    make_method_ids(env, class);
}

static const jvmtiEventCallbacks callbacks = {
    .vm_init = on_vm_init,
    .vm_death = on_vm_death,
    .thread_start = on_thread_start,
    .class_load = on_class_load,
    .class_prepare = on_class_prepare,
};

bool events_open(JavaVM *vm, const struct vm_listener *listener) {
    if (jvmti) return true;
    jvmtiEnv *env = NULL;
    told = listener; /* before the first event */
    if (vm_get_env(vm, &env, JVMTI_VERSION_11) != JNI_OK || !env) return false;
    /* A VM that lacks one of the two capabilities still gives the other. */
    const uint32_t wanted[] = {JVMTI_CAN_GET_SOURCE_FILE_NAME, JVMTI_CAN_GET_LINE_NUMBERS};
    for (int i = 0; i < 2; i++) jvmti_add_capabilities(env, &(jvmtiCapabilities){.bits = {wanted[i]}});
    if (jvmti_set_callbacks(env, &callbacks) != JNI_OK) {
        jvmti_dispose(env);
        return false;
    }
    jvm = vm;
    jvmti = env;
    return true;
}

jvmtiEnv *events_jvmti(void) { return jvmti; }

void events_await_vm(void) { jvmti_set_event(jvmti, JVMTI_ENABLE, JVMTI_VM_INIT); }

static const enum jvmti_event while_recording[] = {JVMTI_VM_DEATH, JVMTI_CLASS_LOAD, JVMTI_CLASS_PREPARE,
                                                   JVMTI_THREAD_START};
enum {
    EVENTS = sizeof while_recording / sizeof *while_recording,
    MOST_LOCAL_REFERENCES = 65536, /* HotSpot refuses more (MaxJNILocalCapacity) */
};

/* Call after the events are on: a class loaded in between is then handled twice instead of never. */
static void make_all_method_ids(JNIEnv *env) {
    jint count;
    jclass *classes;
    /* JVMTI makes a local reference for each class, and -Xcheck:jni of JDK 11 and 17 complains on stdout about more
     * than requested.  A request for many costs nothing: HotSpot only notes the number. */
    bool framed = jni_push_local_frame(env, MOST_LOCAL_REFERENCES) == JNI_OK;
    if (!framed) jni_exception_clear(env);
    if (jvmti_loaded_classes(jvmti, &count, &classes) == JNI_OK) {
        for (jint i = 0; i < count; i++) {
            make_method_ids(jvmti, classes[i]);
            /* A local reference keeps its class from being unloaded. */
            jni_delete_local_ref(env, classes[i]);
        }
        jvmti_deallocate(jvmti, classes);
    }
    if (framed) jni_pop_local_frame(env, NULL);
}

bool events_on(JNIEnv *env) {
    for (int i = 0; i < EVENTS; i++)
        if (jvmti_set_event(jvmti, JVMTI_ENABLE, while_recording[i]) != JNI_OK) {
            events_off();
            return false;
        }
    make_all_method_ids(env);
    /* The calling thread (the main thread of a preloaded JVM) has started already. */
    rename_current_thread(jvmti);
    return true;
}

void events_off(void) {
    for (int i = 0; i < EVENTS; i++) jvmti_set_event(jvmti, JVMTI_DISABLE, while_recording[i]);
}
