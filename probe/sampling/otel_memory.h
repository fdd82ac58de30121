/*
 * OpenTelemetry's memory probes: what the sampler takes, for tracers outside the process.
 *
 *   otel_memory:alloc(ptr, size, weighted_bytes)   a sampled block; weighted_bytes = size / inclusion probability
 *   otel_memory:free(ptr)                          before the free of a block that `alloc` named
 *
 * The contract is design-docs/00003-memory-profiling of open-telemetry/opentelemetry-ebpf-profiler.  The sum of all
 * weighted_bytes estimates the bytes that were allocated; weighted_bytes / size is a number of blocks.
 */
#ifndef OFFHEAP_OTEL_MEMORY_H
#define OFFHEAP_OTEL_MEMORY_H

#include <stddef.h>

#include "platform/compiler.h"
#include "platform/usdt.h"

USDT_DECLARE(otel_memory_alloc);
USDT_DECLARE(otel_memory_free);

/* `weight`: 1 / inclusion probability. */
void otel_memory_fire_alloc(const void *block, size_t size, double weight);
void otel_memory_fire_free(const void *block);

static inline void otel_memory_allocated(const void *block, size_t size, double weight) {
    if (USDT_TRACED(otel_memory_alloc)) otel_memory_fire_alloc(block, size, weight);
}

static inline void otel_memory_freed(const void *block) {
    if (USDT_TRACED(otel_memory_free)) otel_memory_fire_free(block);
}

#endif
