#define _GNU_SOURCE
#include "unwind/cfi.h"

#include <string.h>

#include "platform/system.h"

static bool window_holds(struct cfi_window *window, const uint8_t *at) {
    if (at >= window->low && at < window->high) return true;
    const struct cfi_image *image = window->image;
    size_t before = (uintptr_t)at % CFI_WINDOW, behind = CFI_WINDOW - before;
    if (before > (size_t)(at - image->low)) before = (size_t)(at - image->low);
    if (behind > (size_t)(image->high - at)) behind = (size_t)(image->high - at);
    window->low = window->high = at - before;
    if (image->stays) memcpy(window->bytes, window->low, before + behind);
    else window->gone |= !system_read((uintptr_t)window->low, window->bytes, before + behind);
    if (!window->gone) window->high = at + behind;
    return !window->gone;
}

uint64_t cfi_bytes(struct cfi_cursor *cursor, size_t count) {
    uint64_t value = 0; /* both machines are little-endian */
    if ((size_t)(cursor->end - cursor->at) < count) cursor->bad = true;
    for (size_t got = 0, part; !cursor->bad && got < count; got += part) {
        struct cfi_window *window = cursor->window;
        if (!window_holds(window, cursor->at)) {
            cursor->bad = true;
            break;
        }
        part = (size_t)(window->high - cursor->at);
        if (part > count - got) part = count - got;
        memcpy((uint8_t *)&value + got, window->bytes + (cursor->at - window->low), part);
        cursor->at += part;
    }
    return cursor->bad ? 0 : value;
}

static uint8_t read_u8(struct cfi_cursor *cursor) { return (uint8_t)cfi_bytes(cursor, 1); }

int64_t cfi_signed(struct cfi_cursor *cursor, size_t count) {
    unsigned unused = 64 - 8 * (unsigned)count;
    return (int64_t)(cfi_bytes(cursor, count) << unused) >> unused;
}

uint64_t cfi_uleb(struct cfi_cursor *cursor) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t byte = read_u8(cursor);
        if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return value;
    }
    cursor->bad = true;
    return 0;
}

int64_t cfi_sleb(struct cfi_cursor *cursor) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t byte = read_u8(cursor);
        if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            if ((byte & 0x40) && shift + 7 < 64) value |= UINT64_MAX << (shift + 7);
            return (int64_t)value;
        }
    }
    cursor->bad = true;
    return 0;
}

static void skip(struct cfi_cursor *cursor, uint64_t count) {
    if (cursor->bad || (uint64_t)(cursor->end - cursor->at) < count) cursor->bad = true;
    else cursor->at += count;
}

enum encoding { ENCODED_OMIT = 0xff, ENCODED_INDIRECT = 0x80, ENCODED_PCREL = 0x10, ENCODED_DATAREL = 0x30 };

/* A DW_EH_PE pointer.  An indirect one is skipped and never followed: only personality routines are indirect. */
static uintptr_t read_encoded(struct cfi_cursor *cursor, uint8_t encoding, const uint8_t *data) {
    if (encoding == ENCODED_OMIT) return 0;
    uintptr_t base = 0;
    switch (encoding & 0x70) {
    case 0: break;
    case ENCODED_PCREL: base = (uintptr_t)cursor->at; break;
    case ENCODED_DATAREL: base = (uintptr_t)data; break;
    default: cursor->bad = true; return 0;
    }
    uint64_t value;
    switch (encoding & 0x0f) {
    case 0x00: value = cfi_bytes(cursor, sizeof(uintptr_t)); break;
    case 0x01: value = cfi_uleb(cursor); break;
    case 0x02: value = cfi_bytes(cursor, 2); break;
    case 0x03: value = cfi_bytes(cursor, 4); break;
    case 0x04: value = cfi_bytes(cursor, 8); break;
    case 0x09: value = (uint64_t)cfi_sleb(cursor); break;
    case 0x0a: value = (uint64_t)cfi_signed(cursor, 2); break;
    case 0x0b: value = (uint64_t)cfi_signed(cursor, 4); break;
    case 0x0c: value = cfi_bytes(cursor, 8); break;
    default: cursor->bad = true; return 0;
    }
    return base + (uintptr_t)value;
}

struct cie {
    struct cfi_cursor instructions;
    uint64_t code_alignment;
    int64_t data_alignment;
    uint8_t pointer_encoding;
    bool augmented;
    bool signal_frame;
};

struct fde {
    struct cie cie;
    struct cfi_cursor instructions;
    uintptr_t start, end; /* of the code it describes */
};

/* The length field of a CIE or FDE; the cursor ends behind it, bounded to the length. */
static bool open_entry(struct cfi_cursor *cursor) {
    uint64_t length = cfi_bytes(cursor, 4);
    if (length == UINT32_MAX) length = cfi_bytes(cursor, 8);
    if (cursor->bad || length == 0 || length > (uint64_t)(cursor->end - cursor->at)) return false;
    cursor->end = cursor->at + length;
    return true;
}

static bool parse_cie(struct cfi_window *window, const uint8_t *at, struct cie *cie) {
    const struct cfi_image *image = window->image;
    struct cfi_cursor cursor = {at, image->high, false, window};
    if (!open_entry(&cursor)) return false;
    if (cfi_bytes(&cursor, 4) != 0) return false; /* a CIE's id, in .eh_frame */
    uint8_t version = read_u8(&cursor);
    if (version != 1 && version != 3 && version != 4) return false;

    struct cfi_cursor augmentation = cursor;
    while (read_u8(&cursor) != 0)
        if (cursor.bad) return false;
    if (cursor.bad) return false;
    if (version == 4 && (read_u8(&cursor) != sizeof(uintptr_t) || read_u8(&cursor) != 0)) return false;

    *cie = (struct cie){.pointer_encoding = 0};
    cie->code_alignment = cfi_uleb(&cursor);
    cie->data_alignment = cfi_sleb(&cursor);
    uint64_t return_register = version == 1 ? read_u8(&cursor) : cfi_uleb(&cursor);
    if (return_register != ARCH_RETURN_REGISTER) return false;

    uint8_t letter = read_u8(&augmentation);
    if (letter == 'z') {
        cie->augmented = true;
        uint64_t length = cfi_uleb(&cursor);
        struct cfi_cursor data = cursor;
        skip(&cursor, length);
        if (cursor.bad) return false;
        data.end = cursor.at;
        while ((letter = read_u8(&augmentation)) != 0) {
            switch (letter) {
            case 'R': cie->pointer_encoding = read_u8(&data); break;
            case 'P': read_encoded(&data, read_u8(&data), image->header); break;
            case 'L': read_u8(&data); break;
            case 'S': cie->signal_frame = true; break;
            case 'B': break;       /* aarch64: signed with the B key */
            default: return false; /* the rest is unreadable, and may contain 'R' */
            }
        }
        if (data.bad || augmentation.bad) return false;
    } else if (letter || augmentation.bad) {
        return false;
    }
    cie->instructions = cursor;
    return !cursor.bad;
}

/* FDE and CIE have a window each, since they lie apart and the caller runs the instructions of both later. */
static bool parse_fde(struct cfi_window *window, struct cfi_window *cie_window, const uint8_t *at, struct fde *fde) {
    const struct cfi_image *image = window->image;
    struct cfi_cursor cursor = {at, image->high, false, window};
    if (!open_entry(&cursor)) return false;
    const uint8_t *id = cursor.at;
    uint64_t distance = cfi_bytes(&cursor, 4);
    if (cursor.bad || distance == 0 || distance > (uint64_t)(id - image->low)) return false;
    if (!parse_cie(cie_window, id - distance, &fde->cie)) return false;

    uint8_t encoding = fde->cie.pointer_encoding;
    if (encoding & ENCODED_INDIRECT) return false;
    fde->start = read_encoded(&cursor, encoding, image->header);
    fde->end = fde->start + read_encoded(&cursor, encoding & 0x0f, NULL); /* a length: no base */
    if (fde->cie.augmented) skip(&cursor, cfi_uleb(&cursor));
    fde->instructions = cursor;
    return !cursor.bad;
}

/* Binary search in .eh_frame_hdr's table of {start of code, FDE}, both 32-bit offsets from the header. */
static const uint8_t *search_header(struct cfi_window *window, uintptr_t pc) {
    const struct cfi_image *image = window->image;
    if (image->header < image->low || image->header >= image->high) return NULL;
    struct cfi_cursor cursor = {image->header, image->high, false, window};
    if (read_u8(&cursor) != 1) return NULL;
    uint8_t frame_encoding = read_u8(&cursor), count_encoding = read_u8(&cursor);
    if (read_u8(&cursor) != (ENCODED_DATAREL | 0x0b)) return NULL; /* linkers write no other encoding */
    read_encoded(&cursor, frame_encoding, image->header);
    uint64_t count = read_encoded(&cursor, count_encoding, image->header);
    if (cursor.bad || count > (uint64_t)(cursor.end - cursor.at) / 8) return NULL;

    const uint8_t *table = cursor.at;
    size_t low = 0, high = count; /* the entry is in [low - 1, high) */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct cfi_cursor entry = {table + middle * 8, image->high, false, window};
        if ((uintptr_t)image->header + (uintptr_t)cfi_signed(&entry, 4) <= pc) low = middle + 1;
        else high = middle;
    }
    if (low == 0) return NULL;
    struct cfi_cursor entry = {table + (low - 1) * 8 + 4, image->high, false, window};
    int64_t offset = cfi_signed(&entry, 4);
    if (window->gone) return NULL;
    if (offset < image->low - image->header || offset >= image->high - image->header) return NULL;
    return image->header + offset;
}

enum { REMEMBERED = 4 }; /* gcc and clang nest one deep; bounded because the copies lie on the program's stack */

struct machine {
    const struct cfi_image *image;
    const struct fde *fde;
    struct cfi_row row, initial, remembered[REMEMBERED];
    unsigned depth;
    uintptr_t location;
};

static void set_rule(struct cfi_row *row, uint64_t number, enum cfi_how how, int64_t value) {
    int column = arch_column(number);
    if (column < 0) return; /* a vector register, for example: no rule finds a frame from it */
    row->how[column] = (uint8_t)how;
    row->value[column] = value;
}

static void restore_rule(struct machine *machine, uint64_t number) {
    int column = arch_column(number);
    if (column < 0) return;
    machine->row.how[column] = machine->initial.how[column];
    machine->row.value[column] = machine->initial.value[column];
}

/* Wraps instead of overflowing: the operands are not trusted. */
static int64_t factored(uint64_t value, int64_t factor) { return (int64_t)(value * (uint64_t)factor); }

static void set_cfa(struct cfi_row *row, uint64_t number, int64_t offset) {
    int column = arch_column(number);
    /* A CFA in an untracked register makes the row useless until the CFA is set anew. */
    row->cfa_how = column < 0 ? CFI_UNDEFINED : CFI_REGISTER;
    row->cfa_column = column < 0 ? 0 : (uint8_t)column;
    row->cfa_value = offset;
}

static int64_t read_block(struct machine *machine, struct cfi_cursor *cursor) {
    int64_t where = cursor->at - machine->image->low;
    skip(cursor, cfi_uleb(cursor));
    return where;
}

static void advance(struct machine *machine, uint64_t delta) {
    machine->location += (uintptr_t)(delta * machine->fde->cie.code_alignment);
}

enum {
    DW_CFA_nop = 0x00,
    DW_CFA_set_loc = 0x01,
    DW_CFA_advance_loc1 = 0x02,
    DW_CFA_advance_loc2 = 0x03,
    DW_CFA_advance_loc4 = 0x04,
    DW_CFA_offset_extended = 0x05,
    DW_CFA_restore_extended = 0x06,
    DW_CFA_undefined = 0x07,
    DW_CFA_same_value = 0x08,
    DW_CFA_register = 0x09,
    DW_CFA_remember_state = 0x0a,
    DW_CFA_restore_state = 0x0b,
    DW_CFA_def_cfa = 0x0c,
    DW_CFA_def_cfa_register = 0x0d,
    DW_CFA_def_cfa_offset = 0x0e,
    DW_CFA_def_cfa_expression = 0x0f,
    DW_CFA_expression = 0x10,
    DW_CFA_offset_extended_sf = 0x11,
    DW_CFA_def_cfa_sf = 0x12,
    DW_CFA_def_cfa_offset_sf = 0x13,
    DW_CFA_val_offset = 0x14,
    DW_CFA_val_offset_sf = 0x15,
    DW_CFA_val_expression = 0x16,
    DW_CFA_AARCH64_negate_ra_state = 0x2d, /* arch_strip() always strips, so nothing to keep */
    DW_CFA_GNU_args_size = 0x2e,
    DW_CFA_GNU_negative_offset_extended = 0x2f,
    DW_CFA_advance_loc = 0x40,
    DW_CFA_offset = 0x80,
    DW_CFA_restore = 0xc0,
};

/* Runs instructions until they end or describe code after `pc`. */
static bool run(struct machine *machine, struct cfi_cursor cursor, uintptr_t pc) {
    struct cfi_row *row = &machine->row;
    int64_t factor = machine->fde->cie.data_alignment;
    while (!cursor.bad && cursor.at < cursor.end) {
        uint8_t opcode = read_u8(&cursor);
        uint64_t operand = opcode & 0x3f, number;
        bool fine = true;
        switch (opcode >= DW_CFA_advance_loc ? opcode & 0xc0 : opcode) {
        case DW_CFA_advance_loc: advance(machine, operand); break;
        case DW_CFA_offset: set_rule(row, operand, CFI_OFFSET, factored(cfi_uleb(&cursor), factor)); break;
        case DW_CFA_restore: restore_rule(machine, operand); break;
        case DW_CFA_nop: break;
        case DW_CFA_set_loc:
            machine->location = read_encoded(&cursor, machine->fde->cie.pointer_encoding, machine->image->header);
            break;
        case DW_CFA_advance_loc1: advance(machine, cfi_bytes(&cursor, 1)); break;
        case DW_CFA_advance_loc2: advance(machine, cfi_bytes(&cursor, 2)); break;
        case DW_CFA_advance_loc4: advance(machine, cfi_bytes(&cursor, 4)); break;
        case DW_CFA_offset_extended:
            number = cfi_uleb(&cursor);
            set_rule(row, number, CFI_OFFSET, factored(cfi_uleb(&cursor), factor));
            break;
        case DW_CFA_offset_extended_sf:
            number = cfi_uleb(&cursor);
            set_rule(row, number, CFI_OFFSET, factored((uint64_t)cfi_sleb(&cursor), factor));
            break;
        case DW_CFA_GNU_negative_offset_extended:
            number = cfi_uleb(&cursor);
            set_rule(row, number, CFI_OFFSET, factored(0 - cfi_uleb(&cursor), factor));
            break;
        case DW_CFA_restore_extended: restore_rule(machine, cfi_uleb(&cursor)); break;
        case DW_CFA_undefined: set_rule(row, cfi_uleb(&cursor), CFI_UNDEFINED, 0); break;
        case DW_CFA_same_value: set_rule(row, cfi_uleb(&cursor), CFI_SAME, 0); break;
        case DW_CFA_register: {
            number = cfi_uleb(&cursor);
            int from = arch_column(cfi_uleb(&cursor));
            set_rule(row, number, from < 0 ? CFI_UNDEFINED : CFI_REGISTER, from);
            break;
        }
        case DW_CFA_remember_state:
            fine = machine->depth < REMEMBERED;
            if (fine) machine->remembered[machine->depth++] = *row;
            break;
        case DW_CFA_restore_state:
            fine = machine->depth > 0;
            if (fine) *row = machine->remembered[--machine->depth];
            break;
        case DW_CFA_def_cfa:
            number = cfi_uleb(&cursor);
            set_cfa(row, number, (int64_t)cfi_uleb(&cursor));
            break;
        case DW_CFA_def_cfa_sf:
            number = cfi_uleb(&cursor);
            set_cfa(row, number, factored((uint64_t)cfi_sleb(&cursor), factor));
            break;
        case DW_CFA_def_cfa_register: set_cfa(row, cfi_uleb(&cursor), row->cfa_value); break;
        case DW_CFA_def_cfa_offset: row->cfa_value = (int64_t)cfi_uleb(&cursor); break;
        case DW_CFA_def_cfa_offset_sf: row->cfa_value = factored((uint64_t)cfi_sleb(&cursor), factor); break;
        case DW_CFA_def_cfa_expression:
            row->cfa_how = CFI_VAL_EXPRESSION;
            row->cfa_value = read_block(machine, &cursor);
            break;
        case DW_CFA_expression:
            number = cfi_uleb(&cursor);
            set_rule(row, number, CFI_EXPRESSION, read_block(machine, &cursor));
            break;
        case DW_CFA_val_expression:
            number = cfi_uleb(&cursor);
            set_rule(row, number, CFI_VAL_EXPRESSION, read_block(machine, &cursor));
            break;
        case DW_CFA_val_offset:
            number = cfi_uleb(&cursor);
            set_rule(row, number, CFI_VAL_OFFSET, factored(cfi_uleb(&cursor), factor));
            break;
        case DW_CFA_val_offset_sf:
            number = cfi_uleb(&cursor);
            set_rule(row, number, CFI_VAL_OFFSET, factored((uint64_t)cfi_sleb(&cursor), factor));
            break;
        case DW_CFA_AARCH64_negate_ra_state: break;
        case DW_CFA_GNU_args_size: cfi_uleb(&cursor); break;
        default: return false;
        }
        if (!fine) return false;
        if (machine->location > pc) break; /* the rest is about later code */
    }
    return !cursor.bad;
}

static bool find(struct cfi_window *window, struct cfi_window *cie_window, uintptr_t pc, struct cfi_row *row) {
    struct fde fde;
    const uint8_t *at = search_header(window, pc);
    if (!at || !parse_fde(window, cie_window, at, &fde)) return false;
    if (pc < fde.start || pc >= fde.end) return false;

    struct machine machine; /* `remembered` stays uninitialized: it is large, and written before it is read */
    machine.image = window->image;
    machine.fde = &fde;
    machine.depth = 0;
    machine.row = (struct cfi_row){.cfa_how = CFI_UNDEFINED};
    machine.initial = machine.row;
    machine.location = 0; /* a CIE's instructions hold everywhere */
    if (!run(&machine, fde.cie.instructions, UINTPTR_MAX)) return false;
    machine.initial = machine.row;
    machine.location = fde.start;
    if (!run(&machine, fde.instructions, pc)) return false;
    *row = machine.row;
    row->signal_frame = fde.cie.signal_frame;
    return true;
}

enum cfi_search cfi_find(const struct cfi_image *image, uintptr_t pc, struct cfi_row *row) {
    struct cfi_window window, cie_window;
    cfi_open(&window, image);
    cfi_open(&cie_window, image);
    if (find(&window, &cie_window, pc, row)) return CFI_FOUND;
    return window.gone || cie_window.gone ? CFI_GONE : CFI_NONE;
}
