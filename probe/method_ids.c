#define _GNU_SOURCE
#include "method_ids.h"

#include "stack_bounds.h"
#include "system.h"

enum { WORD = sizeof(uintptr_t) };

static const struct vm_code_layout *layout; /* NULL: ids cannot be looked into */

/* Replaces an address by the one that stands there. */
static bool follow(uintptr_t *address, size_t offset) {
    uintptr_t field = *address + offset;
    return field % WORD == 0 && word_readable(field) && system_read(field, address, WORD) && *address;
}

/* The id, if its Method says that it is its own. */
static bool returns(const struct vm_code_layout *known, uintptr_t id) {
    uintptr_t constants = id, ids, length;
    uint16_t number;
    if (!follow(&constants, 0) || !follow(&constants, known->method_const)) return false;
    ids = constants;
    if (!follow(&ids, known->const_pool) || !follow(&ids, known->pool_class) || !follow(&ids, known->class_ids) ||
        !system_read(constants + known->const_number, &number, sizeof number))
        return false;
    length = ids; /* its first word is how many follow */
    if (!follow(&length, 0) || number >= length) return false;
    return follow(&ids, (1 + (size_t)number) * WORD) && ids == id;
}

void method_ids_begin(const struct vm_code_layout *known, jmethodID method) {
    layout = returns(known, (uintptr_t)method) ? known : NULL;
}

/* Once more, since a class's ids move when there are more of them. */
bool method_id_sound(jmethodID id) {
    return !layout || returns(layout, (uintptr_t)id) || returns(layout, (uintptr_t)id);
}
