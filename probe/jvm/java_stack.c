#define _GNU_SOURCE
#include "jvm/java_stack.h"

#include <string.h>

#include "jvm/code_cache.h"
#include "jvm/method_ids.h"
#include "jvm/scopes.h"
#include "platform/system.h"
#include "unwind/stack_bounds.h"

#if defined(__x86_64__)

enum { WORD = sizeof(uintptr_t), STUBS = 4 };
/* HotSpot's frame_x86.hpp, in words from an interpreted frame's fp; no table exports them. */
enum { SENDER_SP_SLOT = -1, METHOD_SLOT = -3, BCP_SLOT = -8 };

static const struct vm_code_layout *layout; /* NULL: not known */

void java_stack_begin(const struct vm_code_layout *known) { layout = known; }

struct place {
    uintptr_t pc, sp, fp, high;
};

static bool read_word(const struct place *place, uintptr_t at, uintptr_t *word) {
    if (at % WORD || at < place->sp || at > place->high - WORD) return false;
    *word = *(const uintptr_t *)at;
    return true;
}

static bool step_out(struct place *place, uintptr_t blob) {
    uintptr_t bytes = code_frame_bytes(blob), sp = place->sp + bytes, pc, fp;
    if (bytes < 2 * WORD || bytes > place->high - place->sp || !read_word(place, sp - WORD, &pc) ||
        !read_word(place, sp - 2 * WORD, &fp))
        return false;
    place->pc = pc;
    place->sp = sp;
    place->fp = fp;
    return true;
}

/* Steps out of stubs to the nmethod that calls them.  0: the caller is no nmethod. */
static uintptr_t nmethod_of(struct place *place) {
    for (int stubs = 0; stubs <= STUBS && !java_interprets(place->pc); stubs++) {
        struct code code = code_at(place->pc);
        if (!code.blob || code.nmethod) return code.blob;
        if (place->pc == *layout->call_stub_return || !step_out(place, code.blob)) return 0;
    }
    return 0;
}

/* The pc in the frame's own code, also if a return deoptimizes the frame. */
static bool true_pc(const struct place *place, uintptr_t nmethod, uintptr_t *pc) {
    *pc = place->pc;
    uintptr_t at;
    if (!code_deoptimizes(nmethod, place->pc)) return true;
    return scopes_orig_pc_at(nmethod, place->sp, &at) && read_word(place, at, pc) && code_at(*pc).blob == nmethod;
}

/* `method` is that of an nmethod on the stack, or a method inlined there: the VM cannot unload the class of either. */
static struct call_frame call_of(uintptr_t method, jint bci) {
    return (struct call_frame){bci, (jmethodID)(uintptr_t)java_method_id(method)};
}

static jint put_scopes(const struct scope *scopes, int count, struct call_frame *calls, jint room) {
    jint put = count < room ? count : room;
    for (jint i = 0; i < put; i++) calls[i] = call_of(scopes[i].method, scopes[i].bci);
    return put;
}

/* 0: the method that the frame executes is not known. */
static jint put_compiled(const struct place *place, uintptr_t nmethod, struct call_frame *calls, jint room) {
    struct scope scopes[SCOPES];
    uintptr_t pc, method = code_method(nmethod);
    if (!code_alive(nmethod)) return 0;
    if (code_is_native(nmethod)) {
        calls[0] = call_of(method, JAVA_BCI_NATIVE);
        return 1;
    }
    int count = true_pc(place, nmethod, &pc) ? scopes_at(nmethod, pc, SCOPE_EXACT, scopes) : 0;
    if (count) return put_scopes(scopes, count, calls, room);
    calls[0] = call_of(method, JAVA_BCI_INEXACT);
    return 1;
}

static bool bci_of(uintptr_t method, uintptr_t bcp, jint *bci) {
    uintptr_t constants;
    uint16_t size;
    *bci = JAVA_BCI_NATIVE;
    if (!bcp) return true;
    if (!system_read(method + layout->method_const, &constants, WORD) ||
        !system_read(constants + layout->const_code_size, &size, sizeof size))
        return false;
    uintptr_t offset = bcp - (constants + layout->const_bytes);
    *bci = (jint)offset;
    return offset < size;
}

static bool leave_interpreted(struct place *place, struct call_frame *call) {
    uintptr_t fp = place->fp, method, bcp, pc, sp, sender_fp;
    jint bci;
    if (fp <= place->sp || !read_word(place, fp + METHOD_SLOT * WORD, &method) ||
        !read_word(place, fp + BCP_SLOT * WORD, &bcp) || !read_word(place, fp + SENDER_SP_SLOT * WORD, &sp) ||
        !read_word(place, fp + WORD, &pc) || !read_word(place, fp, &sender_fp) || sp <= fp || sp > place->high)
        return false;
    /* If the native walk ended at a wrong word, `method` is any word, so the id comes from the kernel's copies. */
    uint64_t id = method_id_read(layout, method);
    if (!id || !bci_of(method, bcp, &bci)) return false;
    *call = (struct call_frame){bci, (jmethodID)(uintptr_t)id};
    place->pc = pc;
    place->sp = sp;
    place->fp = sender_fp;
    return true;
}

/* Leaves the frame where native code called Java: JavaCallWrapper keeps the anchor of the outer Java frames. */
static bool leave_entry(struct place *place, bool *end) {
    uintptr_t wrapper, sp, pc, fp;
    if (place->fp <= place->sp ||
        !read_word(place, place->fp + (uintptr_t)(intptr_t)layout->wrapper_slot * WORD, &wrapper) ||
        !read_word(place, wrapper + layout->wrapper_sp, &sp))
        return false;
    *end = sp == 0;
    if (*end) return true;
    if (sp <= place->fp || sp >= place->high || !read_word(place, wrapper + layout->wrapper_pc, &pc) ||
        !read_word(place, wrapper + layout->wrapper_fp, &fp) || (!pc && !read_word(place, sp - WORD, &pc)))
        return false;
    place->pc = pc;
    place->sp = sp;
    place->fp = fp;
    return true;
}

jint java_stack(const struct unwind_registers *at, struct call_frame *calls, jint room, bool *whole) {
    struct place place = {at->pc, at->sp, at->fp, 0};
    jint count = 0;
    *whole = false;
    if (!layout || !scopes_known() || !stack_bounds(place.sp, &place.high)) return 0;
    while (count < room) {
        if (place.pc == *layout->call_stub_return) {
            if (!leave_entry(&place, whole) || *whole) break;
        } else if (java_interprets(place.pc)) {
            if (!leave_interpreted(&place, &calls[count])) break;
            count++;
        } else {
            struct code code = code_at(place.pc);
            jint put = code.nmethod ? put_compiled(&place, code.blob, calls + count, room - count) : 0;
            if (!code.blob || (code.nmethod && !put)) break;
            count += put;
            if (!step_out(&place, code.blob)) break;
        }
    }
    return count;
}

static bool are(const struct scope *scopes, int count, const struct call_frame *calls, jint found) {
    if (!count || count > found) return false;
    for (int i = 0; i < count; i++)
        if (calls[i].bci != scopes[i].bci || (uint64_t)(uintptr_t)calls[i].method != java_method_id(scopes[i].method))
            return false;
    return true;
}

enum java_first java_stack_correct(const struct unwind_registers *at, struct call_frame *calls, jint *count,
                                   jint room) {
    struct place place = {at->pc, at->sp, at->fp, 0};
    struct scope exact[SCOPES], after[SCOPES];
    uintptr_t pc;
    if (!layout || !scopes_known() || !stack_bounds(place.sp, &place.high)) return JAVA_FIRST_RIGHT;
    uintptr_t nmethod = nmethod_of(&place);
    if (!nmethod || !code_alive(nmethod) || code_is_native(nmethod) || !true_pc(&place, nmethod, &pc))
        return JAVA_FIRST_RIGHT;
    int right = scopes_at(nmethod, pc, SCOPE_EXACT, exact);
    if (are(exact, right, calls, *count)) return JAVA_FIRST_RIGHT;
    int wrong = scopes_at(nmethod, pc, SCOPE_AFTER, after);
    if (!are(after, wrong, calls, *count)) return JAVA_FIRST_RIGHT; /* an unknown difference */
    jint rest = *count - wrong, put = right ? right : 1;
    if (put + rest > room) rest = room > put ? room - put : 0;
    memmove(calls + put, calls + wrong, (size_t)rest * sizeof *calls);
    if (right) put_scopes(exact, right, calls, room);
    else calls[0] = call_of(code_method(nmethod), JAVA_BCI_INEXACT);
    *count = put + rest < room ? put + rest : room;
    return right ? JAVA_FIRST_CORRECTED : JAVA_FIRST_INEXACT;
}

#else /* aarch64 has other frames; what AsyncGetCallTrace finds stays as it is */

void java_stack_begin(const struct vm_code_layout *layout) { (void)layout; }
jint java_stack(const struct unwind_registers *at, struct call_frame *calls, jint room, bool *whole) {
    (void)at, (void)calls, (void)room;
    *whole = false;
    return 0;
}
enum java_first java_stack_correct(const struct unwind_registers *at, struct call_frame *calls, jint *count,
                                   jint room) {
    (void)at, (void)calls, (void)count, (void)room;
    return JAVA_FIRST_RIGHT;
}

#endif
