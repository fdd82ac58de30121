/*
 * Static tracepoints (USDT): a nop in the code, and a note that tells tracers where the nop and its arguments are.
 *
 * The format is version 3 of SystemTap's, https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation: a note of
 * the owner "stapsdt", type 3, in the section .note.stapsdt.  Its descriptor has three addresses (of the nop, of the
 * section .stapsdt.base, of the semaphore) and three strings (provider, name, arguments).  An argument reads N@OPERAND:
 * N bytes, unsigned, in an operand of the assembler.  The address of .stapsdt.base tells a tracer by how much a later
 * tool moved the other two addresses; the section's flag R keeps the section, since no code refers to it.  zig, which
 * builds the wheels, has no <sys/sdt.h>.
 *
 * A semaphore counts the tracers.  The kernel finds it by its offset in the file and writes to it in each process that
 * is traced, so it must have bytes in the file, on pages that stay writable: the section .probes.  The pages are its
 * own: the loader maps the end of one segment and the start of the next from the same page of the file, and for a
 * tracer that comes before the mapping, the kernel would write to the first of the two.
 *
 * The arguments are in the registers of the first arguments of a function.  So a tracer that does not parse operands
 * finds them as well.
 */
#ifndef OFFHEAP_USDT_H
#define OFFHEAP_USDT_H

#include <stdbool.h>
#include <stdint.h>

#include "platform/compiler.h"

#if defined(__x86_64__)
#define USDT_PAGE 4096
#else
#define USDT_PAGE 65536 /* the largest page of aarch64 */
#endif

/* `volatile`: only the kernel writes to it, which the optimiser of the whole library cannot know.  The first semaphore
 * of a library is aligned to USDT_PAGE. */
#define USDT_SEMAPHORE(name) \
    __attribute__((section(".probes"), used, visibility("hidden"))) volatile uint16_t name##_semaphore = 0
#define USDT_DECLARE(name) extern __attribute__((visibility("hidden"))) volatile uint16_t name##_semaphore
/* Does anybody trace?  Costs one load of memory that only the kernel writes to. */
#ifdef NO_TRACEPOINTS /* benchmarks/cost/probe_builds.py measures what this load costs */
#define USDT_TRACED(name) false
#else
#define USDT_TRACED(name) unlikely(name##_semaphore != 0)
#endif

/* The nop of `provider`:`name`, and its note.  Use it once in the source, in a function that is never inlined, so that
 * there is one note. */
#define USDT_TEXT(provider, name, arguments)                                   \
    "1: nop\n"                                                                 \
    ".pushsection .note.stapsdt, \"\", %%note\n"                               \
    ".balign 4\n"                                                              \
    ".4byte 8, 3f - 2f, 3\n"                                                   \
    ".asciz \"stapsdt\"\n"                                                     \
    "2: .8byte 1b\n"                                                           \
    ".8byte _.stapsdt.base\n"                                                  \
    ".8byte " #provider "_" #name "_semaphore\n"                               \
    ".asciz \"" #provider "\"\n"                                               \
    ".asciz \"" #name "\"\n"                                                   \
    ".asciz \"" arguments "\"\n"                                               \
    "3: .balign 4\n"                                                           \
    ".popsection\n"                                                            \
    ".ifndef _.stapsdt.base\n"                                                 \
    ".pushsection .stapsdt.base, \"aGR\", %%progbits, .stapsdt.base, comdat\n" \
    ".weak _.stapsdt.base\n"                                                   \
    ".hidden _.stapsdt.base\n"                                                 \
    "_.stapsdt.base: .space 1\n"                                               \
    ".size _.stapsdt.base, 1\n"                                                \
    ".popsection\n"                                                            \
    ".endif\n"

#if defined(__x86_64__)
#define USDT_ARGUMENT_1 "8@%%rdi"
#define USDT_ARGUMENT_2 "8@%%rsi"
#define USDT_ARGUMENT_3 "8@%%rdx"
#define USDT_IN_1 "rdi"
#define USDT_IN_2 "rsi"
#define USDT_IN_3 "rdx"
#else
#define USDT_ARGUMENT_1 "8@x0"
#define USDT_ARGUMENT_2 "8@x1"
#define USDT_ARGUMENT_3 "8@x2"
#define USDT_IN_1 "x0"
#define USDT_IN_2 "x1"
#define USDT_IN_3 "x2"
#endif

/* Arguments of 8 bytes. */
#define USDT_1(provider, name, first)                                                  \
    do {                                                                               \
        register uint64_t usdt_1 __asm__(USDT_IN_1) = (first);                         \
        __asm__ __volatile__(USDT_TEXT(provider, name, USDT_ARGUMENT_1)::"r"(usdt_1)); \
    } while (0)

#define USDT_3(provider, name, first, second, third)                                                         \
    do {                                                                                                     \
        register uint64_t usdt_1 __asm__(USDT_IN_1) = (first);                                               \
        register uint64_t usdt_2 __asm__(USDT_IN_2) = (second);                                              \
        register uint64_t usdt_3 __asm__(USDT_IN_3) = (third);                                               \
        __asm__ __volatile__(                                                                                \
            USDT_TEXT(provider, name, USDT_ARGUMENT_1 " " USDT_ARGUMENT_2 " " USDT_ARGUMENT_3)::"r"(usdt_1), \
            "r"(usdt_2), "r"(usdt_3));                                                                       \
    } while (0)

#endif
