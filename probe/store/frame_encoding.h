/* Encoding and decoding of the 64-bit frames that recording.h describes. */
#ifndef OFFHEAP_FRAME_ENCODING_H
#define OFFHEAP_FRAME_ENCODING_H

#include <stdint.h>

#include "recording.h"

static inline uint64_t frame_of_kind(enum offheap_frame_kind kind) {
    return (uint64_t)kind << OFFHEAP_FRAME_KIND_SHIFT;
}

/* `offset`: return address - module bias, below 2^40. */
static inline uint64_t frame_native(uint32_t module_row, uint64_t offset) {
    return frame_of_kind(OFFHEAP_FRAME_NATIVE) | (uint64_t)module_row << OFFHEAP_FRAME_MODULE_SHIFT |
           (offset & OFFHEAP_FRAME_ADDRESS_MASK);
}

/* A return address in no known module. */
static inline uint64_t frame_address(uintptr_t address) {
    return frame_of_kind(OFFHEAP_FRAME_ADDRESS) | ((uint64_t)address & ((UINT64_C(1) << 48) - 1));
}

/* `bci` is kept as 24-bit two's complement. */
static inline uint64_t frame_java(uint32_t method_slot, int32_t bci) {
    return frame_of_kind(OFFHEAP_FRAME_JAVA) | (uint64_t)method_slot << OFFHEAP_FRAME_METHOD_SHIFT |
           ((uint32_t)bci & ((UINT32_C(1) << OFFHEAP_FRAME_METHOD_SHIFT) - 1));
}

static inline uint64_t frame_hook(enum offheap_hook hook) { return frame_of_kind(OFFHEAP_FRAME_HOOK) | (uint64_t)hook; }

/* `why`: minus AsyncGetCallTrace's num_frames, or OFFHEAP_GAP_UNWINDER. */
static inline uint64_t frame_gap(uint32_t why) { return frame_of_kind(OFFHEAP_FRAME_GAP) | why; }

/* `signature`: of the class, an offset in STRINGS. */
static inline uint64_t frame_class(uint32_t signature) { return frame_of_kind(OFFHEAP_FRAME_CLASS) | signature; }

static inline enum offheap_frame_kind frame_kind(uint64_t frame) {
    return (enum offheap_frame_kind)(frame >> OFFHEAP_FRAME_KIND_SHIFT);
}

#endif
