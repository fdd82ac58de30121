#include "jvm/java_walk.h"

#include <stdatomic.h>

#include "jvm/code_cache.h"
#include "jvm/method_ids.h"
#include "unwind/stack_bounds.h"

#if defined(__x86_64__)

enum { WORD = sizeof(uintptr_t) };

static const struct vm_code_layout *layout; /* NULL: not known */
static uintptr_t interpreter_low, interpreter_high;

/* Slots of an interpreted frame in words from fp, by HotSpot's frame_x86.hpp.  No table exports them, so the walk
 * compares both words with AsyncGetCallTrace's result before it relies on them. */
enum { METHOD_SLOT = -3, BCP_SLOT = -8 };

bool java_walk_begin(const struct vm_code_layout *known) {
    layout = NULL;
    uintptr_t queue = *known->interpreter;
    if (!queue || known->sender_sp_slot != -1 || !code_cache_find(known)) return false;
    interpreter_low = *(const uintptr_t *)(queue + known->queue_buffer);
    interpreter_high = interpreter_low + *(const uint32_t *)(queue + known->queue_limit);
    layout = known;
    return true;
}

static bool follow(uintptr_t *address, size_t offset) {
    *address = __atomic_load_n((const uintptr_t *)(*address + offset), __ATOMIC_ACQUIRE);
    return *address != 0;
}

/* Method::find_jmethod_id_or_null.  0: there is none.  Only for a Method that certainly exists: the function trusts the
 * VM's data. */
static uint64_t method_id(uintptr_t method) {
    uintptr_t constants = method;
    if (!follow(&constants, layout->method_const)) return 0;
    uintptr_t ids = constants;
    if (!follow(&ids, layout->const_pool) || !follow(&ids, layout->pool_class) || !follow(&ids, layout->class_ids))
        return 0;
    /* ids[0] is the number of ids. */
    uintptr_t number = *(const uint16_t *)(constants + layout->const_number);
    if (number >= *(const uintptr_t *)ids) return 0;
    return ((const uintptr_t *)ids)[number + 1];
}

/* Methods once read by copies, with their ids: direct-mapped, for any number of threads, like the rules of unwind.c. */
enum { SEEN_BITS = 12, OTHERS_A_COPY = 64 };
#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)
static struct {
    _Atomic uint64_t check, id; /* check: the Method, mixed with the id */
} seen[1 << SEEN_BITS];

static uint64_t seen_id(uintptr_t method) {
    size_t at = method * GOLDEN >> (64 - SEEN_BITS);
    uint64_t id = atomic_load_explicit(&seen[at].id, memory_order_relaxed);
    return (atomic_load_explicit(&seen[at].check, memory_order_relaxed) ^ id * GOLDEN) == method ? id : 0;
}

static void keep_seen(uintptr_t method, uint64_t id) {
    size_t at = method * GOLDEN >> (64 - SEEN_BITS);
    atomic_store_explicit(&seen[at].id, id, memory_order_relaxed);
    atomic_store_explicit(&seen[at].check, method ^ id * GOLDEN, memory_order_relaxed);
}

uint64_t java_method_id(uintptr_t method) { return layout ? method_id(method) : 0; }

bool java_interprets(uintptr_t pc) { return layout && pc >= interpreter_low && pc < interpreter_high; }

struct walk {
    struct unwind_trace *words;
    struct java_trace *trace;
    uintptr_t pc, sp, fp, low, high;
    bool stub;                /* the walk has just left the frame of a stub */
    const uintptr_t *fp_from; /* where the walk read fp, if no step depends on it yet; NULL: written down */
    const struct call_frame *calls, *call, *calls_end; /* call: the next one outward */
};

static bool read_word(struct walk *walk, uintptr_t at, uintptr_t *word) {
    if (at % WORD || at < walk->low || at > walk->high - WORD) return false;
    *word = *(const uintptr_t *)at;
    unwind_write_down(walk->words, (const uintptr_t *)at);
    return true;
}

static bool rely_on_fp(struct walk *walk) {
    if (walk->fp_from) unwind_write_down(walk->words, walk->fp_from);
    walk->fp_from = NULL;
    return walk->fp > walk->sp && walk->fp % WORD == 0 && walk->fp < walk->high;
}

static bool write_check(struct java_check *checks, uint32_t *count, uint32_t room, uintptr_t what, uint64_t id) {
    if (*count == room) return false;
    checks[(*count)++] = (struct java_check){what, id};
    return true;
}

/* The call with this id, which must be the next one.  In a compiled frame inlined methods may come before it, but not
 * in the innermost frame if that calls native code itself, without a stub.  NULL: the next call is another. */
static const struct call_frame *call_of(const struct walk *walk, uint64_t id, bool inlined) {
    inlined = inlined && (walk->call != walk->calls || walk->stub);
    for (const struct call_frame *call = walk->call; id && call < walk->calls_end; call++) {
        if ((uint64_t)(uintptr_t)call->method == id) return call;
        if (!inlined) break;
    }
    return NULL;
}

/* Advances to the frame's call.  The native walk may have ended at a wrong word, since rules can be wrong, and stacks
 * are full of remains of earlier frames.  Then `method` is any word, or belongs to an unloaded class.  So this reads
 * the kernel's copies, which takes 4 microseconds, unless earlier copies have shown that the Method has the id of a
 * call that AsyncGetCallTrace has just found: the method with that id is running, and no other method ever gets the
 * id. */
static bool find_call(struct walk *walk, uintptr_t method, bool inlined, uint64_t *id) {
    static _Atomic uint32_t others;
    walk->trace->cut = walk->call == walk->calls_end;
    if (walk->trace->cut) return false;
    uint64_t before = seen_id(method);
    const struct call_frame *call = call_of(walk, before, inlined);
    /* Another Method may be at this address now.  Usually the Method is the same, in a stack that no walk understands,
     * so only one such case in OTHERS_A_COPY reads the copies. */
    if (before && !call && atomic_fetch_add_explicit(&others, 1, memory_order_relaxed) % OTHERS_A_COPY) return false;
    *id = call ? method_id(method) : method_id_read(layout, method);
    if (*id != before) {
        if (*id) keep_seen(method, *id);
        call = call_of(walk, *id, inlined);
    }
    if (!call) return false;
    walk->call = call + 1;
    return true;
}

/* `fp_from`: a word of the frame that the walk leaves. */
static bool go_out(struct walk *walk, uintptr_t pc, uintptr_t sp, uintptr_t fp_from) {
    if (sp <= walk->sp || sp > walk->high) return false;
    walk->pc = pc;
    walk->sp = sp;
    walk->fp_from = (const uintptr_t *)fp_from;
    walk->fp = *walk->fp_from;
    return true;
}

static bool leave_interpreted(struct walk *walk) {
    uintptr_t method, bcp, pc, sp;
    if (!rely_on_fp(walk)) return false;
    uintptr_t fp = walk->fp;
    if (!read_word(walk, fp + METHOD_SLOT * WORD, &method) || !read_word(walk, fp + BCP_SLOT * WORD, &bcp) ||
        !read_word(walk, fp + WORD, &pc) || !read_word(walk, fp - WORD, &sp))
        return false;
    uint64_t id;
    struct java_trace *trace = walk->trace;
    if (!find_call(walk, method, false, &id) || !write_check(trace->method, &trace->methods, JAVA_METHODS, method, id))
        return false;
    jint bci = walk->call[-1].bci;
    uintptr_t code = *(const uintptr_t *)(method + layout->method_const) + layout->const_bytes;
    if (bci > 0 && bcp != code + (uintptr_t)bci) return false;
    return go_out(walk, pc, sp, fp);
}

static bool leave_compiled(struct walk *walk) {
    struct code code = code_at(walk->pc);
    if (!code.blob || (code.nmethod && code_deoptimizes(code.blob, walk->pc))) return false;
    uint32_t bytes = code_frame_bytes(code.blob);
    uintptr_t pc, sp = walk->sp + bytes;
    if (bytes < 2 * WORD || bytes > walk->high - walk->sp || !read_word(walk, sp - WORD, &pc)) return false;
    uint64_t id;
    struct java_trace *trace = walk->trace;
    if (code.nmethod && !find_call(walk, code_method(code.blob), true, &id)) return false;
    walk->stub = !code.nmethod;
    return write_check(trace->code, &trace->codes, JAVA_CODES, walk->pc, code.id) &&
           go_out(walk, pc, sp, sp - 2 * WORD);
}

/* Leaves the frame where native code called Java: its JavaCallWrapper keeps the anchor of the outer Java frames. */
static bool leave_entry(struct walk *walk, bool *end) {
    uintptr_t wrapper, sp, pc, fp;
    if (!rely_on_fp(walk) || !read_word(walk, walk->fp + (uintptr_t)(intptr_t)layout->wrapper_slot * WORD, &wrapper) ||
        !read_word(walk, wrapper + layout->wrapper_sp, &sp))
        return false;
    *end = sp == 0;
    if (*end) return true;
    if (sp <= walk->fp || sp >= walk->high || !read_word(walk, wrapper + layout->wrapper_pc, &pc) ||
        !read_word(walk, wrapper + layout->wrapper_fp, &fp))
        return false;
    if (!pc && !read_word(walk, sp - WORD, &pc)) return false;
    walk->pc = pc;
    walk->sp = sp;
    walk->fp = fp;
    walk->fp_from = NULL;
    return true;
}

bool java_walk(const struct unwind_registers *at, const struct call_frame *calls, jint count,
               struct unwind_trace *words, struct java_trace *trace) {
    trace->codes = trace->methods = 0;
    trace->cut = false;
    struct walk walk = {
        .words = words,
        .trace = trace,
        .pc = at->pc,
        .sp = at->sp,
        .fp = at->fp,
        .low = at->sp,
        .fp_from = words->fp,
        .calls = calls,
        .call = calls,
        .calls_end = calls + count,
    };
    if (!layout || !stack_bounds(walk.sp, &walk.high)) return false;
    for (bool end = false; !end;) {
        bool left = walk.pc == *layout->call_stub_return ? leave_entry(&walk, &end)
                    : java_interprets(walk.pc)           ? leave_interpreted(&walk)
                                                         : leave_compiled(&walk);
        if (!left) return false;
    }
    /* The outermost method is never inlined. */
    if (walk.call == calls || (walk.call != walk.calls_end && walk.call[-1].method != calls[count - 1].method))
        return false;
    return words->count <= words->room;
}

bool java_walk_holds(const struct java_check *codes, uint32_t code_count, const struct java_check *methods,
                     uint32_t method_count) {
    for (uint32_t i = 0; i < code_count; i++)
        if (code_at(codes[i].what).id != codes[i].id) return false;
    /* The Methods come last: if all frames are known to be there, so are their Methods.  Reading Methods in place keeps
     * a memo cheap; copies take a dozen system calls for each. */
    for (uint32_t i = 0; i < method_count; i++)
        if (method_id(methods[i].what) != methods[i].id) return false;
    return true;
}

#else /* aarch64 has other frames, and signed return addresses; every walk is AsyncGetCallTrace's */

bool java_walk_begin(const struct vm_code_layout *known) { return (void)known, false; }
bool java_walk(const struct unwind_registers *at, const struct call_frame *calls, jint count,
               struct unwind_trace *words, struct java_trace *trace) {
    return (void)at, (void)calls, (void)count, (void)words, (void)trace, false;
}
uint64_t java_method_id(uintptr_t method) { return (void)method, 0; }
bool java_interprets(uintptr_t pc) { return (void)pc, false; }
bool java_walk_holds(const struct java_check *codes, uint32_t code_count, const struct java_check *methods,
                     uint32_t method_count) {
    return (void)codes, (void)methods, code_count + method_count == 0;
}

#endif
