#define _GNU_SOURCE
#include "unwind/unwind.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "platform/system.h"
#include "store/frame_encoding.h"
#include "store/modules.h"
#include "unwind/cfi.h"
#include "unwind/packed_rules.h"
#include "unwind/stack_bounds.h"

/*
 * pc -> rule, direct-mapped, 16 Ki entries.  Any number of threads read and write it without a lock: `check` is the key
 * mixed with the rule's own bits, so an entry that is half overwritten, or that belongs to another pc, does not match
 * and counts as a miss.  The generation is part of the key: after a dlclose no old entry matches.
 */
enum { CACHE_BITS = 14 };
#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

static struct entry {
    _Atomic uint64_t check, head;
#if defined(__aarch64__)
    _Atomic uint64_t saves, unused;
#endif
} cache[1 << CACHE_BITS] __attribute__((aligned(64)));

static inline uint64_t mixed(struct rule rule) {
    uint64_t mix = rule.head * GOLDEN;
#if defined(__aarch64__)
    mix = (mix ^ rule.saves) * GOLDEN;
#endif
    return mix ^ mix >> 32;
}

static inline uint64_t key_of(uintptr_t at, uint32_t generation) {
    return (uint64_t)at + 1 + generation * (GOLDEN & ~(uint64_t)1);
}

static inline struct entry *entry_of(uintptr_t at) { return &cache[at * GOLDEN >> (64 - CACHE_BITS)]; }

static inline bool cached(uintptr_t at, uint64_t key, struct rule *rule) {
    struct entry *entry = entry_of(at);
    rule->head = atomic_load_explicit(&entry->head, memory_order_relaxed);
#if defined(__aarch64__)
    rule->saves = atomic_load_explicit(&entry->saves, memory_order_relaxed);
#endif
    /* Acquire: the module that the rule names must be visible in modules[]. */
    return (atomic_load_explicit(&entry->check, memory_order_acquire) ^ mixed(*rule)) == key;
}

static void keep(uintptr_t at, uint64_t key, struct rule rule) {
    struct entry *entry = entry_of(at);
    atomic_store_explicit(&entry->head, rule.head, memory_order_relaxed);
#if defined(__aarch64__)
    atomic_store_explicit(&entry->saves, rule.saves, memory_order_relaxed);
#endif
    atomic_store_explicit(&entry->check, key ^ mixed(rule), memory_order_release);
}

/* A frame without a cached rule. */
struct miss {
    const struct module *module; /* NULL: none */
    struct cfi_row row;
    bool stepwise; /* no packed rule: `row` through cfi_step() */
};

#if defined(__aarch64__)
/* Is `pc` the trampoline that a signal's handler returns to?  Then `row` finds the interrupted frame. */
static bool find_signal_frame(uintptr_t pc, struct cfi_row *row) {
    uint64_t code[2];
    uintptr_t word = pc & -(uintptr_t)8;
    for (uintptr_t i = 0; i < 2; i++) /* both words: if the kernel makes no copies, system_read trusts its caller */
        if (!word_readable(word + 8 * i) || !system_read(word + 8 * i, &code[i], 8)) return false;
    if ((pc % 8 ? code[0] >> 32 | code[1] << 32 : code[0]) != ARCH_SIGNAL_RETURN) return false;
    *row = (struct cfi_row){.cfa_how = CFI_REGISTER, .cfa_column = COLUMN_SP, .signal_frame = true};
    for (int column = 0; column < UNWIND_COLUMNS; column++) {
        row->how[column] = CFI_OFFSET;
        row->value[column] = SIGNAL_FRAME_X0 + 8 * (19 + column - COLUMN_X19); /* x19-x28 */
    }
    row->value[COLUMN_FP] = SIGNAL_FRAME_X0 + 8 * 29;
    row->value[COLUMN_LR] = SIGNAL_FRAME_X0 + 8 * 30;
    row->value[COLUMN_SP] = SIGNAL_FRAME_SP;
    row->value[COLUMN_PC] = SIGNAL_FRAME_PC;
    return true;
}
#endif

static struct cfi_image image_of(const struct module *module) {
    return (struct cfi_image){module->eh_frame_hdr, module->readable_low, module->readable_high, module->stays};
}

/* Out of line: rows are large, and the usual walk does not need their stack space. */
static __attribute__((noinline)) bool find_rule(uintptr_t at, uint64_t key, struct rule *rule, struct miss *miss) {
    miss->stepwise = false;
    miss->module = NULL;
    switch (module_search(at, &miss->module)) {
    case MODULE_UNKNOWN: return false;
    case MODULE_NONE:
#if defined(__aarch64__)
        if (find_signal_frame(at + 1, &miss->row)) {
            *rule = rule_of_kind(RULE_FRAME, MODULE_NOWHERE);
            return miss->stepwise = true;
        }
#endif
        *rule = rule_of_kind(RULE_OUTSIDE, 0);
        keep(at, key, *rule);
        return true;
    case MODULE_FOUND: break;
    }
    const struct module *module = miss->module;
    unsigned index = (unsigned)module_index(module);
#if defined(__aarch64__)
    if (module->vdso && find_signal_frame(at + 1, &miss->row)) {
        *rule = rule_of_kind(RULE_FRAME, index);
        return miss->stepwise = true;
    }
#endif
    const struct cfi_image image = image_of(module);
    enum cfi_search search = image.header ? cfi_find(&image, at, &miss->row) : CFI_NONE;
    if (search == CFI_GONE) return false;
    if (search == CFI_NONE) {
        /* The kernel's entry points have no rules in ld.so, nor with some compilers; no frame lies beyond them. */
        bool start = module->entry && at - module->entry < 128;
        *rule = rule_of_kind(start ? RULE_ROOT : RULE_LOST, index);
    } else if (miss->row.how[COLUMN_RETURN] == CFI_UNDEFINED) {
        *rule = rule_of_kind(RULE_ROOT, index);
    } else {
        *rule = rule_of_kind(RULE_FRAME, index);
        if (!rule_pack(&miss->row, rule)) {
            miss->stepwise = true;
            return true;
        }
    }
    keep(at, key, *rule);
    return true;
}

static __attribute__((noinline)) bool step_by_row(const struct miss *miss, uintptr_t low, uintptr_t high, bool leaf,
                                                  struct unwind_registers *registers) {
    const struct module *module = miss->module ? miss->module : &modules[MODULE_NOWHERE];
    const struct cfi_image image = image_of(module);
    const struct cfi_stack stack = {low, high};
    if (!cfi_step(&image, &miss->row, &stack, leaf, registers)) return false;
#if defined(__x86_64__)
    if (!miss->row.signal_frame) registers->saved[COLUMN_R10 - COLUMN_RBX] = 0; /* any callee may have used it */
#endif
    return true;
}

struct walk {
    uint64_t *frames;
    size_t max;
    uintptr_t low, high;
    enum unwind_end end;
    bool again;                 /* a frame needs registers that the walk does not update */
    struct unwind_trace *trace; /* or NULL */
};

/* Call it after a step.  The word that fp comes from counts only if a later rule finds a frame from fp: most code keeps
 * other data in that register, which changes all the time. */
static inline void trace_step(struct unwind_trace *trace, struct rule rule, uintptr_t cfa) {
    const uintptr_t *reads[2];
    rule_reads(rule, cfa, reads);
    if (rule_from_fp(rule) && trace->fp) {
        unwind_write_down(trace, trace->fp);
        trace->fp = NULL;
    }
    unwind_write_down(trace, reads[0]);
    if (reads[1]) trace->fp = reads[1];
}

/* `all`: update every register.  Few rules need more than pc, sp and fp, and the usual walk takes half the time without
 * the other registers. */
static inline __attribute__((always_inline)) size_t walk_stack(struct walk *walk, struct unwind_registers *registers,
                                                               const bool all) {
    struct unwind_registers here = *registers;
    uint32_t generation = atomic_load_explicit(&modules_generation, memory_order_acquire);
    uintptr_t low = walk->low, high = walk->high, interrupted = 0; /* 1: a signal came at this pc: no return address */
    size_t count = 0;
    struct miss miss;
    walk->end = UNWIND_LOST;
    walk->again = false;
    for (;;) {
        if (here.pc == 0) {
            walk->end = UNWIND_ROOT;
            break;
        }
        uintptr_t at = here.pc - 1 + interrupted;
        uint64_t key = key_of(at, generation);
        struct rule rule;
        miss.stepwise = false;
        if (__builtin_expect(!cached(at, key, &rule), 0)) {
            if (!find_rule(at, key, &rule, &miss)) break;
            if (miss.stepwise && !all) {
                walk->again = true;
                break;
            }
        }
        if (rule_kind(rule) == RULE_OUTSIDE) {
            walk->end = UNWIND_NO_MODULE;
            break;
        }
        const struct module *module = &modules[rule_module(rule)];
        if (count || !module->own) {
            if (count == walk->max) {
                walk->end = UNWIND_TRUNCATED;
                break;
            }
            uint64_t base = atomic_load_explicit(&module->frame_base, memory_order_relaxed);
            walk->frames[count++] = base ? base + at + 1 : frame_address(at + 1);
        }
        if (rule_kind(rule) != RULE_FRAME) {
            if (rule_kind(rule) == RULE_ROOT) walk->end = UNWIND_ROOT;
            break;
        }
        if (all && miss.stepwise) {
            if (!step_by_row(&miss, low, high, interrupted, &here)) break;
            interrupted = miss.row.signal_frame;
        } else {
            if (!rule_step(rule, all, low, high, &here)) break;
            if (!all && walk->trace) trace_step(walk->trace, rule, here.sp);
            interrupted = 0;
        }
    }
    *registers = here;
    return count;
}

size_t unwind_traced(struct unwind_registers *registers, uint64_t *frames, size_t max, enum unwind_end *end,
                     struct unwind_trace *trace) {
    struct walk walk = {.frames = frames, .max = max, .low = registers->sp, .trace = trace};
    *end = UNWIND_LOST;
    if (trace) {
        trace->count = 0;
        trace->fp = NULL;
        trace->generation = atomic_load_explicit(&modules_generation, memory_order_acquire);
    }
    if (!stack_bounds(walk.low, &walk.high)) return 0;

    struct unwind_registers start = *registers;
    size_t count = walk_stack(&walk, registers, false);
    if (__builtin_expect(walk.again, 0)) {
        *registers = start;
        count = walk_stack(&walk, registers, true);
        if (trace) trace->count = trace->room + 1;
    }
    *end = walk.end;
    return count;
}

size_t unwind(struct unwind_registers *registers, uint64_t *frames, size_t max, enum unwind_end *end) {
    return unwind_traced(registers, frames, max, end, NULL);
}
