/*
 * Threads make objects while one thread sweeps and thins them, as the agent thread does.  The test plays the JNI: a
 * weak reference is a cell that says whether its object is dead.  Run under TSan, ASan, UBSan.
 *
 * At each moment an object has a slot, a row and a reference, or none of them.  So at the end, when all objects are
 * dead and swept, no row and no reference is left.  While objects are thinned, the sum of 1/p over the rows must stay
 * that of the objects.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "java_heap/object_interval.h"
#include "java_heap/objects.h"
#include "recording.h"
#include "store/live_file.h"
#include "store/table.h"

enum { THREADS = 4, SLOTS = 1024, CELLS = 1 << 16, ROUNDS = 40000, CAPACITY = 1 << 14, SIZE = 200 };

/* -- the probe around objects.c --------------------------------------------------------------- */

static struct offheap_header header;
struct offheap_header *live = &header;
static _Atomic long lost;

bool memory_grant(uint64_t bytes) { return bytes > 0; }
void live_cover(uint64_t add, uint64_t remove) { (void)add, (void)remove; }
void growth_turn(void) {}
uint16_t thread_row(void) { return 1; }
uint32_t live_tick(void) { return 7; }
/* The mean of the first code is SIZE / 8: p is nearly 1 there and two octaves higher, then it halves by each. */
double object_probability(size_t size, uint8_t code) {
    double x = 8.0 * (double)size / SIZE;
    for (unsigned i = OFFHEAP_JAVA_CODE; i < code; i++) x /= 2;
    double term = x, sum = x;
    for (int i = 2; i < 30; i++) {
        term *= -x / i;
        sum += term;
    }
    return sum;
}

/* -- the JNI ------------------------------------------------------------------------------------ */

struct cell {
    _Atomic int references;
    atomic_bool dead;
};
static struct cell cells[CELLS];

static jweak new_weak(JNIEnv *env, jobject object) {
    (void)env;
    atomic_fetch_add(&((struct cell *)object)->references, 1);
    return object;
}
static void delete_weak(JNIEnv *env, jweak reference) {
    (void)env;
    if (atomic_fetch_sub(&((struct cell *)reference)->references, 1) != 1) {
        fprintf(stderr, "a reference was deleted twice\n");
        exit(1);
    }
}
static jboolean same_object(JNIEnv *env, jobject one, jobject other) {
    (void)env, (void)other;
    return atomic_load(&((struct cell *)one)->dead);
}
static jboolean exception_check(JNIEnv *env) {
    (void)env;
    return false;
}

static table_entry entries[240] = {
    [24] = (table_entry)same_object,
    [226] = (table_entry)new_weak,
    [227] = (table_entry)delete_weak,
    [228] = (table_entry)exception_check,
};
static const table_entry *const jni_table = entries;
static JNIEnv *env = (JNIEnv *)&jni_table;

/* -- the rows ------------------------------------------------------------------------------------ */

static _Alignas(64) uint64_t keys[CAPACITY];
static struct offheap_value values[CAPACITY];

static long rows(double *weight) {
    long count = 0;
    *weight = 0;
    for (unsigned i = 0; i < CAPACITY; i++) {
        if (!__atomic_load_n(&keys[i], __ATOMIC_ACQUIRE)) continue;
        count++;
        *weight += 1 / object_probability(values[i].block & OFFHEAP_VALUE_SIZE_MASK,
                                          (uint8_t)(values[i].block >> OFFHEAP_VALUE_INTERVAL_SHIFT));
    }
    return count;
}

static _Noreturn void wrong(const char *what, long found, long due) {
    fprintf(stderr, "%s: %ld, not %ld\n", what, found, due);
    exit(1);
}

/* -- many threads -------------------------------------------------------------------------------- */

static atomic_bool finished;
static _Atomic uint32_t next_cell;

static void *allocate(void *unused) {
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t number = atomic_fetch_add(&next_cell, 1) % CELLS;
        struct cell *cell = &cells[number];
        if (atomic_load(&cell->references)) continue; /* of an earlier round */
        atomic_store(&cell->dead, false);
        if (!objects_follow(env, cell, SIZE, OFFHEAP_JAVA_CODE, number)) atomic_fetch_add(&lost, 1);
        atomic_store(&cells[(number + CELLS - 300) % CELLS].dead, true);
    }
    return unused;
}

static void *sweep(void *unused) {
    uint64_t seed = 1;
    while (!atomic_load(&finished)) {
        objects_sweep(env);
        if (objects_crowded()) objects_thin(env, &seed);
    }
    return unused;
}

static void many_threads(void) {
    pthread_t threads[THREADS], sweeper;
    pthread_create(&sweeper, NULL, sweep, NULL);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, allocate, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    atomic_store(&finished, true);
    pthread_join(sweeper, NULL);
    for (unsigned i = 0; i < CELLS; i++) atomic_store(&cells[i].dead, true);
    objects_sweep(env);
    double weight;
    if (rows(&weight)) wrong("rows of the dead", rows(&weight), 0);
    if (header.java_followed) wrong("followed", header.java_followed, 0);
    for (unsigned i = 0; i < CELLS; i++)
        if (atomic_load(&cells[i].references)) wrong("references", atomic_load(&cells[i].references), 0);
    /* Every slot is free again. */
    for (int i = 0; i < SLOTS; i++)
        if (!objects_follow(env, &cells[i], SIZE, OFFHEAP_JAVA_CODE, 1)) wrong("slots", i, SLOTS);
    if (objects_follow(env, &cells[SLOTS], SIZE, OFFHEAP_JAVA_CODE, 1)) wrong("slots", SLOTS + 1, SLOTS);
    for (int i = 0; i < SLOTS; i++) atomic_store(&cells[i].dead, true);
    objects_sweep(env);
}

/* -- thinning ------------------------------------------------------------------------------------ */

/* One thread: samples come as they would under the present code, and the weights must sum up to the objects. */
static void thinning(uint64_t seed) {
    enum { OBJECTS = 20000 };
    uint64_t draws = seed * 77 | 1, thin = seed | 1;
    uint8_t code = OFFHEAP_JAVA_CODE;
    long thinned = 0;
    for (int i = 0; i < OBJECTS; i++) {
        draws ^= draws >> 12, draws ^= draws << 25, draws ^= draws >> 27;
        double uniform = (double)((draws * UINT64_C(0x2545F4914F6CDD1D)) >> 11) * 0x1p-53;
        if (uniform >= object_probability(SIZE, code)) continue;
        atomic_store(&cells[i].dead, false);
        if (!objects_follow(env, &cells[i], SIZE, code, 1)) wrong("slots while thinning", i, OBJECTS);
        if (objects_crowded()) {
            code = objects_thin(env, &thin);
            thinned++;
        }
    }
    double weight;
    long count = rows(&weight);
    /* A standard error is 1/p * sqrt(count) or a little less. */
    double error = 4 / object_probability(SIZE, code), off = weight - OBJECTS;
    if (off * off > error * error * (double)count) wrong("sum of weights", (long)weight, OBJECTS);
    if (thinned < 3) wrong("times thinned", thinned, 3);
    for (int i = 0; i < OBJECTS; i++) atomic_store(&cells[i].dead, true);
    objects_sweep(env);
    if (rows(&weight)) wrong("rows after thinning", rows(&weight), 0);
}

int main(void) {
    for (unsigned i = OFFHEAP_JAVA_CODE; i < 256; i++)
        header.intervals[i] = (uint64_t)(SIZE / 8) << (i - OFFHEAP_JAVA_CODE);
    if (!table_start(keys, values, CAPACITY, CAPACITY, false) || !objects_start(SLOTS, UINT64_MAX)) return 1;
    many_threads();
    for (uint64_t seed = 1; seed <= 20; seed++) thinning(seed);
    objects_stop(env);
    printf("ok, %ld found no slot\n", atomic_load(&lost));
    return 0;
}
