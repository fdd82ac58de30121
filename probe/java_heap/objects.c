#define _GNU_SOURCE
#include "java_heap/objects.h"

#include <pthread.h>
#include <stdatomic.h>

#include "java_heap/object_interval.h"
#include "platform/system.h"
#include "recording.h"
#include "store/live_file.h"
#include "store/memory_bound.h"
#include "store/table.h"
#include "store/table_growth.h"
#include "store/threads.h"

enum {
    FEWEST = 256,
    NONE = UINT32_MAX,
};

struct slot {
    _Atomic(jweak) reference; /* stored last; NULL: free or reserved */
    uint64_t key;
    struct offheap_value value;
};

static struct {
    struct slot *slots;
    uint32_t most;
    uint32_t *free;           /* a stack of free slots */
    pthread_mutex_t changing; /* guards `free` and `free_count`, for a few instructions */
    _Atomic uint32_t free_count;
    _Atomic uint32_t numbers; /* the number of the next key */
    uint64_t most_bytes;
    _Atomic uint64_t bytes; /* of the objects */
} objects = {.changing = PTHREAD_MUTEX_INITIALIZER};

/* Objects are sparse below this part of the slots and of the bytes: half the interval does not crowd them soon. */
enum { SPARSE_PART = 4 };

static size_t bytes_for(uint64_t most) { return most * (sizeof(struct slot) + sizeof *objects.free); }

bool objects_start(uint64_t most, uint64_t most_bytes) {
    while (!memory_grant(bytes_for(most))) {
        most /= 2;
        if (most < FEWEST) return false;
        live_cover(OFFHEAP_SHORT_OF_MEMORY, 0);
    }
    void *pages = system_pages(bytes_for(most));
    if (!pages) return false;
    objects.slots = pages;
    objects.free = (uint32_t *)(objects.slots + most);
    objects.most = (uint32_t)most;
    objects.most_bytes = most_bytes;
    atomic_store(&objects.bytes, 0);
    for (uint32_t i = 0; i < objects.most; i++) objects.free[i] = objects.most - 1 - i;
    atomic_store(&objects.free_count, objects.most);
    __atomic_store_n(&live->java_most, objects.most, __ATOMIC_RELAXED);
    return true;
}

static void *address_of(uint64_t key) { return (void *)(uintptr_t)key; }

static void count_followed(void) {
    __atomic_store_n(&live->java_followed, objects.most - atomic_load(&objects.free_count), __ATOMIC_RELAXED);
}

static uint32_t reserve(void) {
    uint32_t slot = NONE;
    pthread_mutex_lock(&objects.changing);
    uint32_t count = atomic_load(&objects.free_count);
    if (count) {
        slot = objects.free[count - 1];
        atomic_store(&objects.free_count, count - 1);
    }
    pthread_mutex_unlock(&objects.changing);
    return slot;
}

static void release(uint32_t slot) {
    pthread_mutex_lock(&objects.changing);
    uint32_t count = atomic_load(&objects.free_count);
    objects.free[count] = slot;
    atomic_store(&objects.free_count, count + 1);
    pthread_mutex_unlock(&objects.changing);
}

void objects_stop(JNIEnv *env) {
    if (!objects.slots) return;
    for (uint32_t i = 0; i < objects.most; i++) {
        jweak reference = atomic_load(&objects.slots[i].reference);
        if (reference) jni_delete_weak(env, reference);
    }
    system_munmap(objects.slots, bytes_for(objects.most));
    objects.slots = NULL;
}

/* A live object keeps its number: no number comes back before four million others. */
static uint64_t next_key(void) {
    uint32_t number = atomic_fetch_add_explicit(&objects.numbers, 1, memory_order_relaxed);
    return OFFHEAP_OBJECT_KEY | (uint64_t)(number & OFFHEAP_OBJECT_NUMBER_MASK) << OFFHEAP_OBJECT_SHIFT;
}

static bool insert(uint64_t key, struct offheap_value value) {
    void *block = address_of(key);
    if (!table_insert(block, value)) return false;
    if (growth_due(block)) growth_turn();
    return true;
}

bool objects_follow(JNIEnv *env, jobject object, size_t size, uint8_t code, uint32_t stack) {
    uint32_t number = reserve();
    if (number == NONE) return false;
    jweak reference = jni_new_weak(env, object);
    uint64_t bytes = size < OFFHEAP_VALUE_SIZE_MASK ? size : OFFHEAP_VALUE_SIZE_MASK;
    struct slot *slot = &objects.slots[number];
    slot->key = next_key();
    slot->value = (struct offheap_value){
        .block = bytes | (uint64_t)code << OFFHEAP_VALUE_INTERVAL_SHIFT |
                 (uint64_t)thread_row() << OFFHEAP_VALUE_THREAD_SHIFT,
        .stack = stack,
        .birth = live_tick(),
    };
    if (!reference || !insert(slot->key, slot->value)) {
        if (jni_exception_check(env)) jni_exception_clear(env);
        if (reference) jni_delete_weak(env, reference);
        release(number);
        return false;
    }
    atomic_fetch_add_explicit(&objects.bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&slot->reference, reference, memory_order_release);
    return true;
}

static size_t size_of(const struct slot *slot) { return slot->value.block & OFFHEAP_VALUE_SIZE_MASK; }

static void forget(JNIEnv *env, uint32_t number, jweak reference) {
    struct slot *slot = &objects.slots[number];
    struct offheap_value value;
    table_remove(address_of(slot->key), &value);
    atomic_fetch_sub_explicit(&objects.bytes, size_of(slot), memory_order_relaxed);
    atomic_store_explicit(&slot->reference, NULL, memory_order_relaxed);
    jni_delete_weak(env, reference);
    release(number);
}

void objects_sweep(JNIEnv *env) {
    for (uint32_t i = 0; i < objects.most; i++) {
        jweak reference = atomic_load_explicit(&objects.slots[i].reference, memory_order_acquire);
        if (reference && jni_same_object(env, reference, NULL)) forget(env, i, reference);
    }
    count_followed();
}

bool objects_crowded(void) {
    return atomic_load(&objects.free_count) < objects.most / 4 || atomic_load(&objects.bytes) > objects.most_bytes;
}

static uint8_t code_of(const struct slot *slot) { return (uint8_t)(slot->value.block >> OFFHEAP_VALUE_INTERVAL_SHIFT); }

bool objects_sparse(void) {
    return objects.most - atomic_load(&objects.free_count) < objects.most / SPARSE_PART &&
           atomic_load(&objects.bytes) < objects.most_bytes / SPARSE_PART;
}

/* The probability that an object stays if all codes rise to `code`. */
static double stays(const struct slot *slot, uint8_t code) {
    uint8_t before = code_of(slot);
    if (before >= code) return 1;
    return object_probability(size_of(slot), code) / object_probability(size_of(slot), before);
}

/* The least code under which the objects take at most half of the room. */
static uint8_t choose(void) {
    unsigned code = OFFHEAP_JAVA_CODE;
    while (code < 255 && live->intervals[code + 1]) {
        code++;
        double count = 0, bytes = 0;
        for (uint32_t i = 0; i < objects.most; i++) {
            const struct slot *slot = &objects.slots[i];
            if (!atomic_load_explicit(&slot->reference, memory_order_acquire)) continue;
            count += stays(slot, (uint8_t)code);
            bytes += stays(slot, (uint8_t)code) * (double)size_of(slot);
        }
        if (count <= objects.most / 2 && bytes <= (double)objects.most_bytes / 2) break;
    }
    return (uint8_t)code;
}

/* xorshift64*, in [0, 1). */
static double next_uniform(uint64_t *seed) {
    uint64_t x = *seed;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *seed = x;
    return (double)((x * UINT64_C(0x2545F4914F6CDD1D)) >> 11) * 0x1p-53;
}

uint8_t objects_thin(JNIEnv *env, uint64_t *seed) {
    uint8_t code = choose();
    for (uint32_t i = 0; i < objects.most; i++) {
        struct slot *slot = &objects.slots[i];
        jweak reference = atomic_load_explicit(&slot->reference, memory_order_acquire);
        if (!reference || code_of(slot) >= code) continue;
        if (next_uniform(seed) >= stays(slot, code)) {
            forget(env, i, reference);
            continue;
        }
        slot->value.block &= ~(UINT64_C(0xff) << OFFHEAP_VALUE_INTERVAL_SHIFT);
        slot->value.block |= (uint64_t)code << OFFHEAP_VALUE_INTERVAL_SHIFT;
        table_insert(address_of(slot->key), slot->value);
    }
    count_followed();
    return code;
}
