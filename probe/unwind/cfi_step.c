/* From the rules at a pc to the caller's registers. */
#include <string.h>

#include "unwind/cfi.h"

static bool read_stack(const struct cfi_stack *stack, uintptr_t address, uintptr_t *word) {
    if (address % sizeof *word || address < stack->low || address > stack->high - sizeof *word) return false;
    memcpy(word, (const void *)address, sizeof *word);
    return true;
}

static uintptr_t get(const struct unwind_registers *registers, int column) {
    uintptr_t word;
    memcpy(&word, (const char *)registers + (size_t)column * sizeof word, sizeof word);
    return word;
}

static void set(struct unwind_registers *registers, int column, uintptr_t word) {
    memcpy((char *)registers + (size_t)column * sizeof word, &word, sizeof word);
}

enum {
    DW_OP_addr = 0x03,
    DW_OP_deref = 0x06,
    DW_OP_const1u = 0x08,
    DW_OP_const1s = 0x09,
    DW_OP_const2u = 0x0a,
    DW_OP_const2s = 0x0b,
    DW_OP_const4u = 0x0c,
    DW_OP_const4s = 0x0d,
    DW_OP_const8u = 0x0e,
    DW_OP_const8s = 0x0f,
    DW_OP_constu = 0x10,
    DW_OP_consts = 0x11,
    DW_OP_dup = 0x12,
    DW_OP_drop = 0x13,
    DW_OP_over = 0x14,
    DW_OP_pick = 0x15,
    DW_OP_swap = 0x16,
    DW_OP_rot = 0x17,
    DW_OP_and = 0x1a,
    DW_OP_div = 0x1b,
    DW_OP_minus = 0x1c,
    DW_OP_mod = 0x1d,
    DW_OP_mul = 0x1e,
    DW_OP_neg = 0x1f,
    DW_OP_not = 0x20,
    DW_OP_or = 0x21,
    DW_OP_plus = 0x22,
    DW_OP_plus_uconst = 0x23,
    DW_OP_shl = 0x24,
    DW_OP_shr = 0x25,
    DW_OP_shra = 0x26,
    DW_OP_xor = 0x27,
    DW_OP_bra = 0x28,
    DW_OP_eq = 0x29,
    DW_OP_ge = 0x2a,
    DW_OP_gt = 0x2b,
    DW_OP_le = 0x2c,
    DW_OP_lt = 0x2d,
    DW_OP_ne = 0x2e,
    DW_OP_skip = 0x2f,
    DW_OP_lit0 = 0x30,
    DW_OP_lit31 = 0x4f,
    DW_OP_breg0 = 0x70,
    DW_OP_breg31 = 0x8f,
    DW_OP_bregx = 0x92,
    DW_OP_nop = 0x96,
};

enum { EXPRESSION_DEPTH = 16, EXPRESSION_STEPS = 128 };

struct evaluation {
    const struct unwind_registers *registers;
    const struct cfi_stack *stack;
    struct cfi_cursor code;
    uintptr_t words[EXPRESSION_DEPTH];
    unsigned depth;
    bool bad;
};

static void push(struct evaluation *e, uintptr_t word) {
    if (e->depth == EXPRESSION_DEPTH) e->bad = true;
    else e->words[e->depth++] = word;
}

static uintptr_t pop(struct evaluation *e) {
    if (e->depth == 0) {
        e->bad = true;
        return 0;
    }
    return e->words[--e->depth];
}

/* Copies the word `index` places below the top. */
static void pick(struct evaluation *e, unsigned index) {
    if (index >= e->depth) e->bad = true;
    else push(e, e->words[e->depth - 1 - index]);
}

static void push_register(struct evaluation *e, uint64_t number, int64_t offset) {
    int column = arch_column(number);
    if (column < 0) e->bad = true;
    else push(e, get(e->registers, column) + (uintptr_t)offset);
}

static void jump(struct evaluation *e, const uint8_t *start, int64_t distance) {
    if (distance < start - e->code.at || distance > e->code.end - e->code.at) e->bad = true;
    else e->code.at += distance;
}

static uintptr_t binary(struct evaluation *e, uint8_t opcode, uintptr_t a, uintptr_t b) {
    intptr_t sa = (intptr_t)a, sb = (intptr_t)b;
    switch (opcode) {
    case DW_OP_and: return a & b;
    case DW_OP_or: return a | b;
    case DW_OP_xor: return a ^ b;
    case DW_OP_plus: return a + b;
    case DW_OP_minus: return a - b;
    case DW_OP_mul: return a * b;
    case DW_OP_shl: return b < 64 ? a << b : 0;
    case DW_OP_shr: return b < 64 ? a >> b : 0;
    case DW_OP_shra: return (uintptr_t)(sa >> (b < 64 ? b : 63));
    case DW_OP_eq: return sa == sb;
    case DW_OP_ne: return sa != sb;
    case DW_OP_ge: return sa >= sb;
    case DW_OP_gt: return sa > sb;
    case DW_OP_le: return sa <= sb;
    case DW_OP_lt: return sa < sb;
    case DW_OP_div:
        if (sb != 0 && !(sa == INTPTR_MIN && sb == -1)) return (uintptr_t)(sa / sb);
        break;
    case DW_OP_mod:
        if (b != 0) return a % b;
        break;
    default: break;
    }
    e->bad = true;
    return 0;
}

static void execute(struct evaluation *e, uint8_t opcode, const uint8_t *start) {
    struct cfi_cursor *code = &e->code;
    if (opcode >= DW_OP_lit0 && opcode <= DW_OP_lit31) {
        push(e, opcode - DW_OP_lit0);
        return;
    }
    if (opcode >= DW_OP_breg0 && opcode <= DW_OP_breg31) {
        push_register(e, opcode - DW_OP_breg0, cfi_sleb(code));
        return;
    }
    uintptr_t a, b, c;
    uint64_t number;
    switch (opcode) {
    case DW_OP_nop: break;
    case DW_OP_bregx:
        number = cfi_uleb(code);
        push_register(e, number, cfi_sleb(code));
        break;
    case DW_OP_addr: push(e, cfi_bytes(code, sizeof a)); break;
    case DW_OP_const1u: push(e, cfi_bytes(code, 1)); break;
    case DW_OP_const1s: push(e, (uintptr_t)cfi_signed(code, 1)); break;
    case DW_OP_const2u: push(e, cfi_bytes(code, 2)); break;
    case DW_OP_const2s: push(e, (uintptr_t)cfi_signed(code, 2)); break;
    case DW_OP_const4u: push(e, cfi_bytes(code, 4)); break;
    case DW_OP_const4s: push(e, (uintptr_t)cfi_signed(code, 4)); break;
    case DW_OP_const8u:
    case DW_OP_const8s: push(e, cfi_bytes(code, 8)); break;
    case DW_OP_constu: push(e, cfi_uleb(code)); break;
    case DW_OP_consts: push(e, (uintptr_t)cfi_sleb(code)); break;
    case DW_OP_deref:
        if (read_stack(e->stack, pop(e), &a)) push(e, a);
        else e->bad = true;
        break;
    case DW_OP_dup: pick(e, 0); break;
    case DW_OP_over: pick(e, 1); break;
    case DW_OP_pick: pick(e, (unsigned)cfi_bytes(code, 1)); break;
    case DW_OP_drop: pop(e); break;
    case DW_OP_swap:
        a = pop(e), b = pop(e);
        push(e, a), push(e, b);
        break;
    case DW_OP_rot:
        a = pop(e), b = pop(e), c = pop(e);
        push(e, a), push(e, c), push(e, b);
        break;
    case DW_OP_neg: push(e, 0 - pop(e)); break;
    case DW_OP_not: push(e, ~pop(e)); break;
    case DW_OP_plus_uconst: push(e, pop(e) + cfi_uleb(code)); break;
    case DW_OP_skip: jump(e, start, cfi_signed(code, 2)); break;
    case DW_OP_bra: {
        int64_t distance = cfi_signed(code, 2);
        if (pop(e)) jump(e, start, distance);
        break;
    }
    default: b = pop(e), a = pop(e); push(e, binary(e, opcode, a, b));
    }
}

/* `where`: the expression's ULEB length, from image->low.  `cfa`: pushed first, for register rules. */
static bool evaluate(const struct cfi_image *image, int64_t where, const struct cfi_stack *stack,
                     const struct unwind_registers *registers, const uintptr_t *cfa, uintptr_t *result) {
    if (where < 0 || where >= image->high - image->low) return false;
    struct cfi_window window;
    cfi_open(&window, image);
    struct evaluation e = {
        .registers = registers, .stack = stack, .code = {image->low + where, image->high, false, &window}};
    uint64_t length = cfi_uleb(&e.code);
    if (e.code.bad || length > (uint64_t)(e.code.end - e.code.at)) return false;
    const uint8_t *start = e.code.at;
    e.code.end = start + length;
    if (cfa) push(&e, *cfa);
    for (unsigned steps = 0; e.code.at < e.code.end && !e.code.bad && !e.bad; steps++) {
        if (steps == EXPRESSION_STEPS) return false;
        execute(&e, (uint8_t)cfi_bytes(&e.code, 1), start);
    }
    *result = pop(&e);
    return !e.bad && !e.code.bad;
}

static bool find_column(const struct cfi_image *image, const struct cfi_row *row, int column, uintptr_t cfa,
                        const struct cfi_stack *stack, const struct unwind_registers *old, uintptr_t *word) {
    int64_t value = row->value[column];
    uintptr_t address;
    switch (row->how[column]) {
    case CFI_OFFSET: return read_stack(stack, cfa + (uintptr_t)value, word);
    case CFI_VAL_OFFSET: *word = cfa + (uintptr_t)value; return true;
    case CFI_REGISTER: *word = get(old, (int)value); return true;
    case CFI_EXPRESSION: return evaluate(image, value, stack, old, &cfa, &address) && read_stack(stack, address, word);
    case CFI_VAL_EXPRESSION: return evaluate(image, value, stack, old, &cfa, word);
    default: /* same or undefined; a caller's sp is the CFA by default */
        *word = column == COLUMN_SP ? cfa : get(old, column);
        return true;
    }
}

bool cfi_step(const struct cfi_image *image, const struct cfi_row *row, const struct cfi_stack *stack, bool leaf,
              struct unwind_registers *registers) {
    uintptr_t cfa;
    if (row->cfa_how == CFI_REGISTER) cfa = get(registers, row->cfa_column) + (uintptr_t)row->cfa_value;
    else if (row->cfa_how != CFI_VAL_EXPRESSION || !evaluate(image, row->cfa_value, stack, registers, NULL, &cfa))
        return false;

    struct unwind_registers caller = *registers;
    for (int column = 0; column < UNWIND_COLUMNS; column++) {
        uintptr_t word;
        if (!find_column(image, row, column, cfa, stack, registers, &word)) return false;
        set(&caller, column, word);
    }
    if (row->how[COLUMN_RETURN] == CFI_SAME && !leaf) return false; /* the caller cannot be at the same place */
    /* aarch64 keeps an interrupted pc and x30 apart; elsewhere the return register is the next pc. */
    if (COLUMN_RETURN != COLUMN_PC && row->how[COLUMN_PC] == CFI_SAME) caller.pc = get(&caller, COLUMN_RETURN);
    caller.pc = arch_strip(caller.pc);
    /* Only a frame that a signal interrupted may have used no stack yet. */
    if (caller.sp % ARCH_STACK_ALIGNMENT || caller.sp > stack->high) return false;
    if (leaf ? caller.sp < registers->sp : caller.sp <= registers->sp) return false;
    *registers = caller;
    return true;
}
