#define _GNU_SOURCE
#include "java_heap/class_memo.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "store/strings.h"

enum {
    MOST_SIGNATURE = 1024,
    CLASSES = 1024, /* 32 KiB; a large server allocates many objects of a few hundred classes */
    PROBES = 4,
};

enum state { EMPTY, TAKEN, KEPT };

static struct {
    _Atomic uint32_t state;
    uint32_t recording;
    jint hash;
    uint32_t signature;
    jweak class;
} memo[CLASSES];

/* A thread that is stopped in an event keeps the entries of its recording alive.  A later recording has other strings,
 * and passes over these entries. */
static uint32_t recording;

void class_memo_start(void) { recording++; }

static uint32_t ask(jvmtiEnv *jvmti, jclass class) {
    char *signature;
    if (jvmti_class_signature(jvmti, class, &signature) != JNI_OK) return 0;
    uint32_t offset = live_string(signature, strnlen(signature, MOST_SIGNATURE));
    jvmti_deallocate(jvmti, signature);
    return offset;
}

static void keep(JNIEnv *env, jclass class, jint hash, uint32_t signature, uint32_t at) {
    uint32_t empty = EMPTY;
    if (!atomic_compare_exchange_strong(&memo[at].state, &empty, TAKEN)) return;
    memo[at].recording = recording;
    memo[at].hash = hash;
    memo[at].signature = signature;
    memo[at].class = jni_new_weak(env, class);
    if (!memo[at].class) {
        if (jni_exception_check(env)) jni_exception_clear(env);
        atomic_store_explicit(&memo[at].state, EMPTY, memory_order_release);
        return;
    }
    atomic_store_explicit(&memo[at].state, KEPT, memory_order_release);
}

uint32_t class_signature(jvmtiEnv *jvmti, JNIEnv *env, jclass class) {
    jint hash;
    if (jvmti_hash_code(jvmti, class, &hash) != JNI_OK) return ask(jvmti, class);
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t at = ((uint32_t)hash + i) % CLASSES;
        uint32_t state = atomic_load_explicit(&memo[at].state, memory_order_acquire);
        if (state == KEPT && memo[at].recording == recording && memo[at].hash == hash &&
            jni_same_object(env, memo[at].class, class))
            return memo[at].signature;
        if (state != EMPTY) continue;
        uint32_t signature = ask(jvmti, class);
        if (signature) keep(env, class, hash, signature, at);
        return signature;
    }
    return ask(jvmti, class);
}

void class_memo_stop(JNIEnv *env) {
    for (uint32_t at = 0; at < CLASSES; at++) {
        if (atomic_load(&memo[at].state) == KEPT) jni_delete_weak(env, memo[at].class);
        atomic_store(&memo[at].state, EMPTY);
    }
}
