/*
 * The usual rules of a frame, packed: the CFA is sp or fp plus an offset, and the saved registers lie at fixed
 * distances from it.  All other rules go through cfi_step().
 */
#ifndef OFFHEAP_PACKED_RULES_H
#define OFFHEAP_PACKED_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/modules.h"
#include "unwind/cfi.h"
#include "unwind/registers.h"

enum rule_kind {
    RULE_FRAME,   /* step with rule_step() */
    RULE_ROOT,    /* no caller: the return address is undefined */
    RULE_LOST,    /* a module, but no rules for this pc */
    RULE_OUTSIDE, /* in no module */
};

/*
 * head:  kind 2 | CFA from fp 1 | CFA offset in words 16 | module index 12 | machine's own
 * saves: aarch64 only
 */
struct rule {
    uint64_t head;
#if defined(__aarch64__)
    uint64_t saves;
#endif
};

enum { RULE_FP_BIT = 2, RULE_CFA_SHIFT = 3, RULE_MODULE_SHIFT = 19, RULE_OWN_SHIFT = 31 };
_Static_assert(MODULES_MAX <= 1 << (RULE_OWN_SHIFT - RULE_MODULE_SHIFT), "the module index has 12 bits");

static inline enum rule_kind rule_kind(struct rule rule) { return (enum rule_kind)(rule.head & 3); }
static inline unsigned rule_module(struct rule rule) { return rule.head >> RULE_MODULE_SHIFT & (MODULES_MAX - 1); }

static inline struct rule rule_of_kind(enum rule_kind kind, unsigned module) {
    return (struct rule){.head = (uint64_t)kind | (uint64_t)module << RULE_MODULE_SHIFT};
}

/* Packs the part that both machines share.  False: not a usual rule. */
static inline bool rule_pack_cfa(const struct cfi_row *row, struct rule *rule) {
    bool fp = row->cfa_column == COLUMN_FP;
    if (row->signal_frame || row->cfa_how != CFI_REGISTER || !(fp || row->cfa_column == COLUMN_SP)) return false;
    if (row->cfa_value % 8 || row->cfa_value <= 0 || row->cfa_value / 8 > UINT16_MAX) return false;
    if (row->how[COLUMN_SP] != CFI_SAME) return false;
    rule->head |= (uint64_t)fp << RULE_FP_BIT | (uint64_t)(row->cfa_value / 8) << RULE_CFA_SHIFT;
    return true;
}

static inline bool rule_from_fp(struct rule rule) { return rule.head >> RULE_FP_BIT & 1; }

static inline uintptr_t rule_cfa(struct rule rule, const struct unwind_registers *registers) {
    return (rule_from_fp(rule) ? registers->fp : registers->sp) + (rule.head >> RULE_CFA_SHIFT & UINT16_MAX) * 8;
}

#if defined(__x86_64__)

/* own: the word below the CFA (2-15, 0 none) that holds rbp, rbx, r12-r15, 4 bits each; then the greatest of them.
 * The return address is always word 1. */
enum { RULE_SAVES = 6, RULE_DEEPEST_SHIFT = RULE_OWN_SHIFT + 4 * RULE_SAVES };

/* Packs the rules of a row into `rule`, which has a kind and a module.  False: not a usual rule. */
static inline bool rule_pack(const struct cfi_row *row, struct rule *rule) {
    static const uint8_t columns[RULE_SAVES] = {COLUMN_FP, COLUMN_RBX, COLUMN_R12, COLUMN_R13, COLUMN_R14, COLUMN_R15};
    if (!rule_pack_cfa(row, rule) || row->how[COLUMN_R10] != CFI_SAME) return false;
    if (row->how[COLUMN_PC] != CFI_OFFSET || row->value[COLUMN_PC] != -8) return false;
    uint64_t deepest = 1;
    for (unsigned i = 0; i < RULE_SAVES; i++) {
        int64_t value = row->value[columns[i]];
        if (row->how[columns[i]] == CFI_SAME) continue;
        if (row->how[columns[i]] != CFI_OFFSET || value % 8 || value > -16 || value < -120) return false;
        uint64_t word = (uint64_t)(-value / 8);
        rule->head |= word << (RULE_OWN_SHIFT + 4 * i);
        if (word > deepest) deepest = word;
    }
    rule->head |= deepest << RULE_DEEPEST_SHIFT;
    return true;
}

static inline uintptr_t rule_saved(struct rule rule, unsigned i, uintptr_t cfa, uintptr_t unsaved) {
    unsigned word = rule.head >> (RULE_OWN_SHIFT + 4 * i) & 15;
    return word ? *(const uintptr_t *)(cfa - 8 * word) : unsaved;
}

/* The words that rule_step reads, unless `all`, for a frame of this CFA: return address, and saved fp or NULL. */
static inline void rule_reads(struct rule rule, uintptr_t cfa, const uintptr_t *reads[2]) {
    unsigned word = rule.head >> RULE_OWN_SHIFT & 15;
    reads[0] = (const uintptr_t *)(cfa - 8);
    reads[1] = word ? (const uintptr_t *)(cfa - 8 * (uintptr_t)word) : NULL;
}

/* False, with `r` unchanged: the rule leads backwards or out of [low, high).  Words that an epilogue has popped are
 * still below sp, where a signal does not overwrite them: hence `low`, not r->sp.  Unless `all`, r->saved is not
 * updated, since no packed rule needs it. */
static inline bool rule_step(struct rule rule, bool all, uintptr_t low, uintptr_t high, struct unwind_registers *r) {
    uintptr_t cfa = rule_cfa(rule, r), deepest = 8 * (rule.head >> RULE_DEEPEST_SHIFT & 15);
    if (cfa % ARCH_STACK_ALIGNMENT || cfa > high || cfa <= r->sp || cfa - low < deepest) return false;
    r->pc = *(const uintptr_t *)(cfa - 8);
    r->sp = cfa;
    r->fp = rule_saved(rule, 0, cfa, r->fp);
    if (!all) return true;
    for (unsigned i = 1; i < RULE_SAVES; i++) r->saved[i - 1] = rule_saved(rule, i, cfa, r->saved[i - 1]);
    r->saved[COLUMN_R10 - COLUMN_RBX] = 0; /* any callee may have used it */
    return true;
}

#else

/* own: how many words below the CFA x30 lies, 16 bits.  saves: where x29, x19-x28 lie from there, in words plus 2
 * (1-31, 0 not saved), 5 bits each. */
enum { RULE_SAVES = 11 };

static inline int rule_column(unsigned i) { return i == 0 ? COLUMN_FP : COLUMN_X19 + (int)i - 1; }

static inline bool rule_pack(const struct cfi_row *row, struct rule *rule) {
    int64_t lr = row->value[COLUMN_LR];
    rule->saves = 0;
    if (!rule_pack_cfa(row, rule) || row->how[COLUMN_LR] != CFI_OFFSET) return false;
    if (lr % 8 || lr >= 0 || -lr > row->cfa_value) return false;
    rule->head |= (uint64_t)(-lr / 8) << RULE_OWN_SHIFT;
    for (unsigned i = 0; i < RULE_SAVES; i++) {
        int column = rule_column(i);
        int64_t value = row->value[column];
        if (row->how[column] == CFI_SAME) continue;
        if (row->how[column] != CFI_OFFSET || value % 8 || value >= 0) return false;
        int64_t word = (value - lr) / 8 + 2;
        if (word < 1 || word > 31) return false;
        rule->saves |= (uint64_t)word << 5 * i;
    }
    return true;
}

static inline void rule_reads(struct rule rule, uintptr_t cfa, const uintptr_t *reads[2]) {
    uintptr_t lr = cfa - 8 * (rule.head >> RULE_OWN_SHIFT & UINT16_MAX);
    unsigned word = rule.saves & 31;
    reads[0] = (const uintptr_t *)lr;
    reads[1] = word ? (const uintptr_t *)(lr + 8 * (uintptr_t)word - 16) : NULL;
}

static inline bool rule_step(struct rule rule, bool all, uintptr_t low, uintptr_t high, struct unwind_registers *r) {
    uintptr_t cfa = rule_cfa(rule, r), lr = cfa - 8 * (rule.head >> RULE_OWN_SHIFT & UINT16_MAX);
    /* x29 may lie one word below x30, the others up to 29 above. */
    if (cfa % ARCH_STACK_ALIGNMENT || cfa > high || cfa <= r->sp || lr < low || lr >= cfa) return false;
    uintptr_t words[RULE_SAVES];
    for (unsigned i = 0; i < (all ? RULE_SAVES : 1); i++) {
        unsigned word = rule.saves >> 5 * i & 31;
        uintptr_t at = lr + 8 * (uintptr_t)word - 16;
        words[i] = i == 0 ? r->fp : r->saved[i - 1];
        if (!word) continue;
        if (at < low || at >= cfa) return false;
        words[i] = *(const uintptr_t *)at;
    }
    r->pc = arch_strip(*(const uintptr_t *)lr);
    r->sp = cfa;
    r->fp = words[0];
    if (!all) return true;
    for (unsigned i = 1; i < RULE_SAVES; i++) r->saved[i - 1] = words[i];
    r->saved[COLUMN_LR - COLUMN_X19] = r->pc;
    return true;
}

#endif
#endif
