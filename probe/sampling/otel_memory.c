#include "sampling/otel_memory.h"

_Alignas(USDT_PAGE) USDT_SEMAPHORE(otel_memory_alloc);
USDT_SEMAPHORE(otel_memory_free);

__attribute__((noinline)) void otel_memory_fire_alloc(const void *block, size_t size, double weight) {
    /* Rounds: truncation would lower the estimate by half a byte a sample, which shows at small intervals. */
    USDT_3(otel_memory, alloc, (uint64_t)(uintptr_t)block, size, (uint64_t)((double)size * weight + 0.5));
}

__attribute__((noinline)) void otel_memory_fire_free(const void *block) {
    USDT_1(otel_memory, free, (uint64_t)(uintptr_t)block);
}
