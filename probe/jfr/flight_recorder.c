/*
 * This file calls Java through JNI.  A call may leave an exception, after which only a few calls are allowed, so
 * `thrown` follows each call at once.
 */
#define _GNU_SOURCE
#include "jfr/flight_recorder.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "errors.h"
#include "guard/guard.h"
#include "jfr/event_text.h"

enum { LOCAL_REFERENCES = 64 }; /* of a whole request; each event has a local frame of its own */

struct defined {
    jclass class; /* a global reference; NULL: not defined */
    jmethodID construct, is_enabled, commit;
    jfieldID fields[EVENT_FIELDS];
};

static pthread_mutex_t using = PTHREAD_MUTEX_INITIALIZER; /* requests come one by one, offheap_stop at any time */
static struct defined defined[EVENT_CLASSES];

/* Did the last call leave an exception?  Clears it. */
static bool thrown(JNIEnv *env) {
    if (!jni_exception_check(env)) return false;
    jni_exception_clear(env);
    return true;
}

/* -- the classes ------------------------------------------------------------------------- */

static void undefine(JNIEnv *env) {
    for (unsigned i = 0; i < EVENT_CLASSES; i++) {
        if (defined[i].class) jni_delete_global_ref(env, defined[i].class);
        memset(&defined[i], 0, sizeof defined[i]);
    }
}

/* A loader that only these classes refer to, so that they can be unloaded.  NULL if it cannot be made. */
static jobject make_loader(JNIEnv *env) {
    jclass class = jni_find_class(env, "java/security/SecureClassLoader");
    if (thrown(env) || !class) return NULL;
    jmethodID construct = jni_method(env, class, "<init>", "(Ljava/lang/String;Ljava/lang/ClassLoader;)V");
    if (thrown(env) || !construct) return NULL;
    jstring name = jni_new_string(env, "offheap");
    if (thrown(env) || !name) return NULL;
    /* Its parent is the boot loader, which has jdk.jfr. */
    jvalue arguments[] = {{.l = name}, {.l = NULL}};
    jobject loader = jni_new_object(env, class, construct, arguments);
    return thrown(env) ? NULL : loader;
}

static bool look_up(JNIEnv *env, struct defined *its, const struct event_class *class) {
    its->construct = jni_method(env, its->class, "<init>", "()V");
    if (thrown(env) || !its->construct) return false;
    its->is_enabled = jni_method(env, its->class, "isEnabled", "()Z");
    if (thrown(env) || !its->is_enabled) return false;
    its->commit = jni_method(env, its->class, "commit", "()V");
    if (thrown(env) || !its->commit) return false;
    for (unsigned i = 0; i < class->field_count; i++) {
        char type = class->fields[i].type, primitive[] = {type, 0};
        const char *descriptor = type == FIELD_TEXT ? "Ljava/lang/String;" : primitive;
        its->fields[i] = jni_field(env, its->class, class->fields[i].name, descriptor);
        if (thrown(env) || !its->fields[i]) return false;
    }
    return true;
}

static bool define(JNIEnv *env, jobject loader, struct defined *its, const struct event_class *class) {
    jclass local = jni_define_class(env, class->name, loader, class->bytes, (jint)class->length);
    if (thrown(env) || !local) return false;
    its->class = jni_new_global_ref(env, local);
    return its->class && look_up(env, its, class);
}

static bool define_all(JNIEnv *env) {
    if (defined[0].class) return true;
    jobject loader = make_loader(env);
    bool all = loader != NULL;
    for (unsigned i = 0; all && i < EVENT_CLASSES; i++) all = define(env, loader, &defined[i], &event_classes[i]);
    if (!all) undefine(env);
    return all;
}

/* jdk.jfr.FlightRecorder; NULL without the module jdk.jfr. */
static jclass find_flight_recorder(JNIEnv *env) {
    jclass class = jni_find_class(env, "jdk/jfr/FlightRecorder");
    return thrown(env) ? NULL : class;
}

/* -- the events -------------------------------------------------------------------------- */

static jobject make_event(JNIEnv *env, const struct defined *its) {
    jobject event = jni_new_object(env, its->class, its->construct, NULL);
    return thrown(env) ? NULL : event;
}

static bool set_field(JNIEnv *env, jobject object, jfieldID field, char type, const union event_value *value) {
    if (type == FIELD_LONG) jni_set_long(env, object, field, value->number);
    else if (type == FIELD_FLOAT) jni_set_float(env, object, field, (float)value->number / 1e6f);
    else {
        jstring text = jni_new_string(env, value->text);
        if (thrown(env) || !text) return false;
        jni_set_object(env, object, field, text);
    }
    return true;
}

static bool commit(JNIEnv *env, const struct event *event) {
    const struct event_class *class = &event_classes[event->class];
    const struct defined *its = &defined[event->class];
    jobject object = make_event(env, its);
    bool set = object != NULL;
    for (unsigned i = 0; set && i < class->field_count; i++)
        set = set_field(env, object, its->fields[i], class->fields[i].type, &event->values[i]);
    if (!set) return false;
    jni_call_void(env, object, its->commit, NULL);
    return !thrown(env);
}

static bool is_enabled(JNIEnv *env, const struct defined *its) {
    jobject object = make_event(env, its);
    if (!object) return false;
    jboolean enabled = jni_call_boolean(env, object, its->is_enabled, NULL);
    return !thrown(env) && enabled;
}

/* -- requests ---------------------------------------------------------------------------- */

/* PROBE_OK when the classes are defined and a recording takes events of one of them. */
static int prepare(JNIEnv *env) {
    jclass flight_recorder = find_flight_recorder(env);
    if (!flight_recorder) return PROBE_NO_JFR;
    jmethodID is_initialized = jni_static_method(env, flight_recorder, "isInitialized", "()Z");
    if (thrown(env) || !is_initialized) return PROBE_JFR_FAILED;
    jboolean initialized = jni_call_static_boolean(env, flight_recorder, is_initialized, NULL);
    if (thrown(env)) return PROBE_JFR_FAILED;
    /* The definition of an event class would start JFR. */
    if (!initialized) return PROBE_JFR_IDLE;
    if (!define_all(env)) return PROBE_JFR_FAILED;
    for (unsigned i = 0; i < EVENT_CLASSES; i++)
        if (is_enabled(env, &defined[i])) return PROBE_OK;
    return PROBE_JFR_IDLE;
}

static int commit_all(JNIEnv *env, const struct event *events, int count) {
    for (int i = 0; i < count; i++) {
        if (jni_push_local_frame(env, EVENT_FIELDS + 1) != JNI_OK) {
            thrown(env);
            return PROBE_JFR_FAILED;
        }
        bool done = commit(env, &events[i]);
        jni_pop_local_frame(env, NULL);
        if (!done) return PROBE_JFR_FAILED;
    }
    return PROBE_OK;
}

static int serve(JavaVM *vm, const struct event *events, int count) {
    JNIEnv *env;
    if (vm_get_env(vm, &env, JNI_VERSION_1_6) != JNI_OK) return PROBE_JFR_FAILED;
    if (jni_push_local_frame(env, LOCAL_REFERENCES) != JNI_OK) {
        thrown(env);
        return PROBE_JFR_FAILED;
    }
    pthread_mutex_lock(&using);
    /* Asks under the lock: flight_recorder_leave follows the end of the recording, and no class may be defined after
     * it. */
    int result = guard_is_recording() ? prepare(env) : PROBE_NOT_RECORDING;
    if (result == PROBE_OK) result = commit_all(env, events, count);
    pthread_mutex_unlock(&using);
    jni_pop_local_frame(env, NULL);
    return result;
}

int flight_recorder_status(JavaVM *vm) { return serve(vm, NULL, 0); }

int flight_recorder_commit(JavaVM *vm, const char *text) {
    char copy[EVENTS_TEXT_BYTES];
    struct event events[EVENTS_AT_ONCE];
    size_t length = strnlen(text, sizeof copy);
    if (length == sizeof copy) return PROBE_BAD_OPTIONS;
    memcpy(copy, text, length + 1);
    int count = events_parse(copy, events);
    return count < 0 ? PROBE_BAD_OPTIONS : serve(vm, events, count);
}

void flight_recorder_leave(JavaVM *vm) {
    JNIEnv *env;
    if (vm_get_env(vm, &env, JNI_VERSION_1_6) != JNI_OK) return;
    pthread_mutex_lock(&using);
    if (defined[0].class && jni_push_local_frame(env, LOCAL_REFERENCES) == JNI_OK) {
        jclass flight_recorder = find_flight_recorder(env);
        jmethodID unregister =
            flight_recorder ? jni_static_method(env, flight_recorder, "unregister", "(Ljava/lang/Class;)V") : NULL;
        bool known = !thrown(env) && unregister;
        for (unsigned i = 0; known && i < EVENT_CLASSES; i++) {
            jvalue argument = {.l = defined[i].class};
            jni_call_static_void(env, flight_recorder, unregister, &argument);
            thrown(env);
        }
        jni_pop_local_frame(env, NULL);
    }
    thrown(env); /* no memory for the frame: the attach listener's thread goes on without the exception */
    undefine(env);
    pthread_mutex_unlock(&using);
}
