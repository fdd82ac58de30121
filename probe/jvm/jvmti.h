/* The few JNI and JVMTI entries the probe calls, by their position in the function tables.
 *
 * The Java Native Interface Specification (chapters "JNI Functions" and "The Invocation API") and the
 * JVM Tool Interface reference number every entry of the tables, and numbers never change, so no JDK
 * header is needed to build.  JVMTI numbers from 1; position 1 is table[0]. */
#ifndef OFFHEAP_JVMTI_H
#define OFFHEAP_JVMTI_H

#include <stdint.h>
#include <string.h>

typedef int32_t jint;
typedef int64_t jlong;
typedef uint8_t jboolean;
typedef void *jobject;
typedef jobject jclass, jthread, jstring, jweak;
typedef void *jmethodID, *jfieldID;
typedef union {
    jobject l;
    jlong j;
} jvalue;

typedef void (*table_entry)(void);
typedef const table_entry *JavaVM; /* all three: a pointer to a structure that starts with its table */
typedef const table_entry *JNIEnv;
typedef const table_entry *jvmtiEnv;

/* The entry at `index` of the table behind `self`, as a function of the given type. */
#define TABLE_ENTRY(self, index, type) ((type)((*(self))[index]))

enum { JNI_OK = 0, JNI_EDETACHED = -2, JNI_VERSION_1_6 = 0x00010006, JVMTI_VERSION_11 = 0x300B0000 };

typedef struct {
    jint version;
    char *name;
    jobject group;
} JavaVMAttachArgs;

/* -- the invocation interface ------------------------------------------------------------- */

static inline jint vm_detach(JavaVM *vm) { return TABLE_ENTRY(vm, 5, jint (*)(JavaVM *))(vm); }
static inline jint vm_get_env(JavaVM *vm, void *env, jint version) {
    return TABLE_ENTRY(vm, 6, jint (*)(JavaVM *, void **, jint))(vm, (void **)env, version);
}
static inline jint vm_attach_as_daemon(JavaVM *vm, JNIEnv **env, JavaVMAttachArgs *args) {
    return TABLE_ENTRY(vm, 7, jint (*)(JavaVM *, void **, void *))(vm, (void **)env, args);
}

/* -- JNI ------------------------------------------------------------------------------------ */

static inline jclass jni_define_class(JNIEnv *env, const char *name, jobject loader, const void *bytes, jint length) {
    return TABLE_ENTRY(env, 5, jclass (*)(JNIEnv *, const char *, jobject, const void *, jint))(env, name, loader,
                                                                                                bytes, length);
}
static inline jclass jni_find_class(JNIEnv *env, const char *name) {
    return TABLE_ENTRY(env, 6, jclass (*)(JNIEnv *, const char *))(env, name);
}
static inline void jni_exception_clear(JNIEnv *env) { TABLE_ENTRY(env, 17, void (*)(JNIEnv *))(env); }
static inline jint jni_push_local_frame(JNIEnv *env, jint capacity) {
    return TABLE_ENTRY(env, 19, jint (*)(JNIEnv *, jint))(env, capacity);
}
static inline jobject jni_pop_local_frame(JNIEnv *env, jobject result) {
    return TABLE_ENTRY(env, 20, jobject (*)(JNIEnv *, jobject))(env, result);
}
static inline jobject jni_new_global_ref(JNIEnv *env, jobject object) {
    return TABLE_ENTRY(env, 21, jobject (*)(JNIEnv *, jobject))(env, object);
}
static inline void jni_delete_global_ref(JNIEnv *env, jobject reference) {
    TABLE_ENTRY(env, 22, void (*)(JNIEnv *, jobject))(env, reference);
}
static inline jboolean jni_same_object(JNIEnv *env, jobject one, jobject other) {
    return TABLE_ENTRY(env, 24, jboolean (*)(JNIEnv *, jobject, jobject))(env, one, other);
}
static inline void jni_delete_local_ref(JNIEnv *env, jobject reference) {
    TABLE_ENTRY(env, 23, void (*)(JNIEnv *, jobject))(env, reference);
}
static inline jobject jni_new_object(JNIEnv *env, jclass class, jmethodID constructor, const jvalue *args) {
    return TABLE_ENTRY(env, 30, jobject (*)(JNIEnv *, jclass, jmethodID, const jvalue *))(env, class, constructor,
                                                                                          args);
}
static inline jmethodID jni_method(JNIEnv *env, jclass class, const char *name, const char *signature) {
    return TABLE_ENTRY(env, 33, jmethodID (*)(JNIEnv *, jclass, const char *, const char *))(env, class, name,
                                                                                             signature);
}
static inline jboolean jni_call_boolean(JNIEnv *env, jobject object, jmethodID method, const jvalue *args) {
    return TABLE_ENTRY(env, 39, jboolean (*)(JNIEnv *, jobject, jmethodID, const jvalue *))(env, object, method, args);
}
static inline void jni_call_void(JNIEnv *env, jobject object, jmethodID method, const jvalue *args) {
    TABLE_ENTRY(env, 63, void (*)(JNIEnv *, jobject, jmethodID, const jvalue *))(env, object, method, args);
}
static inline jfieldID jni_field(JNIEnv *env, jclass class, const char *name, const char *signature) {
    return TABLE_ENTRY(env, 94, jfieldID (*)(JNIEnv *, jclass, const char *, const char *))(env, class, name,
                                                                                            signature);
}
static inline jlong jni_get_long(JNIEnv *env, jobject object, jfieldID field) {
    return TABLE_ENTRY(env, 101, jlong (*)(JNIEnv *, jobject, jfieldID))(env, object, field);
}
static inline void jni_set_object(JNIEnv *env, jobject object, jfieldID field, jobject value) {
    TABLE_ENTRY(env, 104, void (*)(JNIEnv *, jobject, jfieldID, jobject))(env, object, field, value);
}
static inline void jni_set_long(JNIEnv *env, jobject object, jfieldID field, jlong value) {
    TABLE_ENTRY(env, 110, void (*)(JNIEnv *, jobject, jfieldID, jlong))(env, object, field, value);
}
static inline void jni_set_float(JNIEnv *env, jobject object, jfieldID field, float value) {
    TABLE_ENTRY(env, 111, void (*)(JNIEnv *, jobject, jfieldID, float))(env, object, field, value);
}
static inline jmethodID jni_static_method(JNIEnv *env, jclass class, const char *name, const char *signature) {
    return TABLE_ENTRY(env, 113, jmethodID (*)(JNIEnv *, jclass, const char *, const char *))(env, class, name,
                                                                                              signature);
}
static inline jobject jni_call_static_object(JNIEnv *env, jclass class, jmethodID method, const jvalue *args) {
    return TABLE_ENTRY(env, 116, jobject (*)(JNIEnv *, jclass, jmethodID, const jvalue *))(env, class, method, args);
}
static inline jboolean jni_call_static_boolean(JNIEnv *env, jclass class, jmethodID method, const jvalue *args) {
    return TABLE_ENTRY(env, 119, jboolean (*)(JNIEnv *, jclass, jmethodID, const jvalue *))(env, class, method, args);
}
static inline void jni_call_static_void(JNIEnv *env, jclass class, jmethodID method, const jvalue *args) {
    TABLE_ENTRY(env, 143, void (*)(JNIEnv *, jclass, jmethodID, const jvalue *))(env, class, method, args);
}
static inline jstring jni_new_string(JNIEnv *env, const char *text) {
    return TABLE_ENTRY(env, 167, jstring (*)(JNIEnv *, const char *))(env, text);
}
static inline const char *jni_string_chars(JNIEnv *env, jstring string) {
    return TABLE_ENTRY(env, 169, const char *(*)(JNIEnv *, jstring, jboolean *))(env, string, NULL);
}
static inline void jni_release_chars(JNIEnv *env, jstring string, const char *chars) {
    TABLE_ENTRY(env, 170, void (*)(JNIEnv *, jstring, const char *))(env, string, chars);
}
static inline jweak jni_new_weak(JNIEnv *env, jobject object) {
    return TABLE_ENTRY(env, 226, jweak (*)(JNIEnv *, jobject))(env, object);
}
static inline void jni_delete_weak(JNIEnv *env, jweak reference) {
    TABLE_ENTRY(env, 227, void (*)(JNIEnv *, jweak))(env, reference);
}
static inline jboolean jni_exception_check(JNIEnv *env) { return TABLE_ENTRY(env, 228, jboolean (*)(JNIEnv *))(env); }

/* -- JVMTI ---------------------------------------------------------------------------------- */

enum { JVMTI_ENABLE = 1, JVMTI_DISABLE = 0, JVMTI_PHASE_LIVE = 4 };

enum jvmti_event {
    JVMTI_VM_INIT = 50,
    JVMTI_VM_DEATH = 51,
    JVMTI_THREAD_START = 52,
    JVMTI_CLASS_LOAD = 55,
    JVMTI_CLASS_PREPARE = 56,
    JVMTI_COLLECTION_START = 81,
    JVMTI_COLLECTION_FINISH = 82,
    JVMTI_SAMPLED_OBJECT = 86,
};

/* Callbacks are in the order of the event numbers, from 50. */
typedef struct {
    void (*vm_init)(jvmtiEnv *, JNIEnv *, jthread);
    void (*vm_death)(jvmtiEnv *, JNIEnv *);
    void (*thread_start)(jvmtiEnv *, JNIEnv *, jthread);
    table_entry thread_end, class_file_load_hook;
    void (*class_load)(jvmtiEnv *, JNIEnv *, jthread, jclass);
    void (*class_prepare)(jvmtiEnv *, JNIEnv *, jthread, jclass);
    table_entry from_57[24];
    void (*collection_start)(jvmtiEnv *);
    void (*collection_finish)(jvmtiEnv *);
    table_entry from_83[3];
    void (*sampled_object)(jvmtiEnv *, JNIEnv *, jthread, jobject, jclass, jlong);
    table_entry from_87[2];
} jvmtiEventCallbacks;

typedef struct {
    uint32_t bits[4];
} jvmtiCapabilities;
enum { JVMTI_CAN_GET_SOURCE_FILE_NAME = 1u << 11, JVMTI_CAN_GET_LINE_NUMBERS = 1u << 12 }; /* of bits[0] */
#define JVMTI_CAN_TELL_COLLECTIONS (UINT32_C(1) << 31)                                     /* of bits[0] */
enum { JVMTI_CAN_SAMPLE_OBJECTS = 1u << 11 }; /* of bits[1]; one agent at a time may have it */

typedef struct {
    char *name;
    jint priority;
    jboolean is_daemon;
    jobject thread_group, context_class_loader;
} jvmtiThreadInfo;

typedef struct {
    jmethodID method;
    jlong location; /* a bci; -1 in a native method */
} jvmtiFrameInfo;

typedef struct {
    jlong start_location;
    jint line_number;
} jvmtiLineNumberEntry;

static inline jint jvmti_set_event(jvmtiEnv *env, jint mode, enum jvmti_event event) {
    /* Variadic in the specification ("..." is for future expansion), so the call must be variadic. */
    return TABLE_ENTRY(env, 1, jint (*)(jvmtiEnv *, jint, jint, jthread, ...))(env, mode, (jint)event, NULL);
}
static inline jint jvmti_thread_info(jvmtiEnv *env, jthread thread, jvmtiThreadInfo *info) {
    return TABLE_ENTRY(env, 8, jint (*)(jvmtiEnv *, jthread, jvmtiThreadInfo *))(env, thread, info);
}
static inline jint jvmti_current_thread(jvmtiEnv *env, jthread *thread) {
    return TABLE_ENTRY(env, 17, jint (*)(jvmtiEnv *, jthread *))(env, thread);
}
static inline jint jvmti_deallocate(jvmtiEnv *env, void *memory) {
    return TABLE_ENTRY(env, 46, jint (*)(jvmtiEnv *, unsigned char *))(env, memory);
}
static inline jint jvmti_class_signature(jvmtiEnv *env, jclass class, char **signature) {
    return TABLE_ENTRY(env, 47, jint (*)(jvmtiEnv *, jclass, char **, char **))(env, class, signature, NULL);
}
static inline jint jvmti_source_file(jvmtiEnv *env, jclass class, char **name) {
    return TABLE_ENTRY(env, 49, jint (*)(jvmtiEnv *, jclass, char **))(env, class, name);
}
static inline jint jvmti_class_methods(jvmtiEnv *env, jclass class, jint *count, jmethodID **methods) {
    return TABLE_ENTRY(env, 51, jint (*)(jvmtiEnv *, jclass, jint *, jmethodID **))(env, class, count, methods);
}
static inline jint jvmti_hash_code(jvmtiEnv *env, jobject object, jint *hash) {
    return TABLE_ENTRY(env, 57, jint (*)(jvmtiEnv *, jobject, jint *))(env, object, hash);
}
static inline jint jvmti_method_name(jvmtiEnv *env, jmethodID method, char **name, char **signature) {
    return TABLE_ENTRY(env, 63, jint (*)(jvmtiEnv *, jmethodID, char **, char **, char **))(env, method, name,
                                                                                            signature, NULL);
}
static inline jint jvmti_method_class(jvmtiEnv *env, jmethodID method, jclass *class) {
    return TABLE_ENTRY(env, 64, jint (*)(jvmtiEnv *, jmethodID, jclass *))(env, method, class);
}
static inline jint jvmti_line_table(jvmtiEnv *env, jmethodID method, jint *count, jvmtiLineNumberEntry **rows) {
    return TABLE_ENTRY(env, 69, jint (*)(jvmtiEnv *, jmethodID, jint *, jvmtiLineNumberEntry **))(env, method, count,
                                                                                                  rows);
}
static inline jint jvmti_loaded_classes(jvmtiEnv *env, jint *count, jclass **classes) {
    return TABLE_ENTRY(env, 77, jint (*)(jvmtiEnv *, jint *, jclass **))(env, count, classes);
}
static inline jint jvmti_stack(jvmtiEnv *env, jint most, jvmtiFrameInfo *frames, jint *count) {
    return TABLE_ENTRY(env, 103, jint (*)(jvmtiEnv *, jthread, jint, jint, jvmtiFrameInfo *, jint *))(
        env, NULL, 0, most, frames, count);
}
static inline jint jvmti_set_callbacks(jvmtiEnv *env, const jvmtiEventCallbacks *callbacks) {
    return TABLE_ENTRY(env, 121, jint (*)(jvmtiEnv *, const jvmtiEventCallbacks *, jint))(env, callbacks,
                                                                                          (jint)sizeof *callbacks);
}
static inline jint jvmti_dispose(jvmtiEnv *env) { return TABLE_ENTRY(env, 126, jint (*)(jvmtiEnv *))(env); }
static inline jint jvmti_sampling_interval(jvmtiEnv *env, jint mean_bytes) {
    return TABLE_ENTRY(env, 155, jint (*)(jvmtiEnv *, jint))(env, mean_bytes);
}
static inline jint jvmti_add_capabilities(jvmtiEnv *env, const jvmtiCapabilities *capabilities) {
    return TABLE_ENTRY(env, 141, jint (*)(jvmtiEnv *, const jvmtiCapabilities *))(env, capabilities);
}

#endif
