/*
 * Several threads ask for the signatures of classes at the same time.  The test plays JVMTI and JNI: a class is a cell
 * with a name, a hash and a count of its references.  Run under TSan, ASan, UBSan.
 *
 * Many classes share few hashes, and there are more classes than the memo has room for: the answer must be the class's
 * own in every case.  At the end no reference is left.
 */
#define _GNU_SOURCE
#include "java_heap/class_memo.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/strings.h"

enum { THREADS = 4, CLASSES = 3000, HASHES = 700, ROUNDS = 50000, NAME = 16 };

struct class {
    char name[NAME];
    jint hash;
    _Atomic int references;
};
static struct class classes[CLASSES];
static _Atomic long asked;
static uint32_t first_offset = 1; /* of this recording's strings */
static atomic_bool no_reference;

/* The string table: "C<number>" lies at first_offset + number. */
uint32_t live_string(const char *text, size_t length) {
    if (length != strlen(text)) abort();
    return first_offset + (uint32_t)strtoul(text + 1, NULL, 10);
}

static jint signature(jvmtiEnv *env, jclass class, char **text, char **generic) {
    (void)env, (void)generic;
    atomic_fetch_add(&asked, 1);
    *text = strdup(((struct class *)class)->name);
    return *text ? JNI_OK : 110;
}
static jint deallocate(jvmtiEnv *env, unsigned char *memory) {
    (void)env;
    free(memory);
    return JNI_OK;
}
static jint hash_code(jvmtiEnv *env, jobject object, jint *hash) {
    (void)env;
    *hash = ((struct class *)object)->hash;
    return JNI_OK;
}
static jweak new_weak(JNIEnv *env, jobject object) {
    (void)env;
    if (atomic_load(&no_reference)) return NULL;
    atomic_fetch_add(&((struct class *)object)->references, 1);
    return object;
}
static void delete_weak(JNIEnv *env, jweak reference) {
    (void)env;
    atomic_fetch_sub(&((struct class *)reference)->references, 1);
}
static jboolean same_object(JNIEnv *env, jobject one, jobject other) {
    (void)env;
    return one == other;
}
static jboolean exception_check(JNIEnv *env) {
    (void)env;
    return false;
}

static table_entry jni_entries[240] = {
    [24] = (table_entry)same_object,
    [226] = (table_entry)new_weak,
    [227] = (table_entry)delete_weak,
    [228] = (table_entry)exception_check,
};
static table_entry jvmti_entries[160] = {
    [46] = (table_entry)deallocate,
    [47] = (table_entry)signature,
    [57] = (table_entry)hash_code,
};
static JNIEnv jni = jni_entries;
static jvmtiEnv jvmti = jvmti_entries;

static void ask(unsigned number) {
    uint32_t offset = class_signature(&jvmti, &jni, &classes[number]);
    if (offset == first_offset + number) return;
    fprintf(stderr, "class %u has the signature %u\n", number, offset - first_offset);
    exit(1);
}

static void *work(void *seed) {
    uint64_t x = (uintptr_t)seed;
    for (int i = 0; i < ROUNDS; i++) {
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
        /* Half of the questions are about the first 300 classes. */
        unsigned number = (unsigned)(x >> 33);
        ask(number & 1 ? number / 2 % 300 : number / 2 % CLASSES);
    }
    return NULL;
}

static long references(void) {
    long sum = 0;
    for (int i = 0; i < CLASSES; i++) sum += atomic_load(&classes[i].references);
    return sum;
}

static void check(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

int main(void) {
    for (int i = 0; i < CLASSES; i++) {
        snprintf(classes[i].name, NAME, "C%d", i);
        classes[i].hash = (jint)((unsigned)i % HASHES * 3003000u); /* some are negative */
    }
    class_memo_start();
    ask(5);
    long before = atomic_load(&asked);
    ask(5);
    check(atomic_load(&asked) == before, "a class that the memo holds was asked for");

    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    check(atomic_load(&asked) < THREADS * ROUNDS, "the memo saved nothing");

    /* A recording that ends while a thread is stopped in an event keeps its entries; the next has other strings. */
    class_memo_start();
    first_offset = 1000000;
    ask(5);
    class_memo_stop(&jni);
    check(references() == 0, "references are left");

    class_memo_start();
    atomic_store(&no_reference, true);
    ask(7);
    ask(7);
    class_memo_stop(&jni);
    check(references() == 0, "a reference was deleted that there never was");
    return 0;
}
