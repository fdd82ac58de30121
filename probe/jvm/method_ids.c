#define _GNU_SOURCE
#include "jvm/method_ids.h"

#include "platform/system.h"
#include "unwind/stack_bounds.h"

enum { WORD = sizeof(uintptr_t) };

static const struct vm_code_layout *layout; /* NULL: ids cannot be checked */

/* Replaces an address by the address that it points at.  Asks the kernel whether the word is readable, since
 * system_read reads in place if seccomp forbids copies.  Then the kernel copies the word, since another thread may
 * unmap the page in between. */
static bool follow(uintptr_t *address, size_t offset) {
    uintptr_t field = *address + offset;
    return field % WORD == 0 && word_readable(field) && system_read(field, address, WORD) && *address;
}

uint64_t method_id_read(const struct vm_code_layout *known, uintptr_t method) {
    uintptr_t constants = method;
    if (!follow(&constants, known->method_const)) return 0;
    uintptr_t ids = constants, number_at = constants + known->const_number;
    uint16_t number;
    if (!follow(&ids, known->const_pool) || !follow(&ids, known->pool_class) || !follow(&ids, known->class_ids) ||
        !word_readable(number_at & -(uintptr_t)WORD) || !system_read(number_at, &number, sizeof number))
        return 0;
    uintptr_t length = ids, id = ids; /* its first word is the number of ids */
    if (!follow(&length, 0) || number >= length) return 0;
    return follow(&id, (1 + (size_t)number) * WORD) ? id : 0;
}

/* Does the id lead to a Method that has this id? */
static bool returns(const struct vm_code_layout *known, uintptr_t id) {
    uintptr_t method = id;
    return follow(&method, 0) && method_id_read(known, method) == id;
}

void method_ids_begin(const struct vm_code_layout *known, jmethodID method) {
    layout = returns(known, (uintptr_t)method) ? known : NULL;
}

/* Tries twice, since HotSpot moves the ids of a class when the class gets more ids. */
bool method_id_sound(jmethodID id) {
    return !layout || returns(layout, (uintptr_t)id) || returns(layout, (uintptr_t)id);
}
