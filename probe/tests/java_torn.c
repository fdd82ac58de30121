/*
 * java_torn ROUNDS SEED: walks Java stacks of a fake VM (fake_vm.h), without AsyncGetCallTrace and with fake results
 * of it.  One stack in four is sound: the walk must understand it, and depend on the code and the Methods in it.  One
 * in sixteen has one mistake: the walk must refuse it.  All others are torn.
 *
 * As in unwind_torn.c, the torn words lie in the real stack of a thread, between an unreadable page and the thread's
 * control block.  The VM's parts, the calls and the checks lie beside such pages too: a read or a write outside is a
 * SIGSEGV.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_vm.h"
#include "jvm/java_stack.h"
#include "jvm/java_walk.h"
#include "jvm/scopes.h"
#include "unwind/stack_bounds.h"

enum {
    ROOM = 4096, /* words */
    STACK = 1 << 20,
    CALLS = 512,
    READS = 384,
    RENEWAL = 64, /* walks until one notices another Method in the place of an old one */
    PATIENCE = 5, /* seconds for 1024 walks, which take milliseconds; more: a walk does not end */
};

/* A sound stack while build() makes it, innermost frame first. */
struct plan {
    struct unwind_registers at;
    uintptr_t *next;          /* the next frame's first word */
    uintptr_t *pc_at, *fp_at; /* where build() stores its pc and fp */
    struct call_frame calls[CALLS];
    unsigned count;
    struct java_check codes[CALLS], methods[CALLS];
    unsigned code_count, method_count;
    struct fake_nmethod *nmethod; /* of one compiled frame, or NULL */
    unsigned call_of_nmethod;
    uintptr_t *bcp;               /* of one interpreted frame whose bcp counts, or NULL */
    unsigned renewed;             /* frames with a Method in the place of an old one */
    struct call_frame own[CALLS]; /* what a walk without AsyncGetCallTrace finds */
    unsigned own_count;
    bool own_ends; /* that walk ends at a frame that it does not understand */
};

static uintptr_t *room; /* the lowest readable word */
static uint64_t rounds;
static unsigned long understood, refused, spoiled, torn_understood;

static void add_call(struct plan *plan, uintptr_t id, jint bci) {
    plan->calls[plan->count++] = (struct call_frame){bci, (jmethodID)id};
}

static void add_own(struct plan *plan, uintptr_t id, jint bci) {
    if (!plan->own_ends) plan->own[plan->own_count++] = (struct call_frame){bci, (jmethodID)id};
}

static unsigned draw_class(void) {
    unsigned class;
    do class = (unsigned)draw(CLASSES);
    while (class == DEAD_CLASS || !fake_loaded(class));
    return class;
}

static void add_interpreted(struct plan *plan) {
    uintptr_t *fp = plan->next + 8 + draw(8), *sender = fp + 2 + draw(6);
    unsigned class = draw_class(), index = (unsigned)draw(METHODS_EACH);
    struct fake_method *method = fake_method(class, index);
    jint bci = (jint)draw(BYTECODES) - 4;
    *plan->pc_at = fake_interpreter + draw(fake_interpreter_bytes);
    *plan->fp_at = (uintptr_t)fp;
    fp[-3] = (uintptr_t)method;
    bool native = draw(2);
    fp[-8] = bci > 0 ? (uintptr_t)&method->constants->bytecodes[bci] : native ? 0 : draw(UINT64_MAX);
    if (bci <= 0 && !native) plan->own_ends = true;
    add_own(plan, fake_id(class, index), bci > 0 ? bci : JAVA_BCI_NATIVE);
    fp[-1] = (uintptr_t)sender;
    if (bci > 0) plan->bcp = &fp[-8];
    plan->methods[plan->method_count++] = (struct java_check){(uintptr_t)method, fake_id(class, index)};
    add_call(plan, fake_id(class, index), bci);
    plan->renewed += fake_renewed(class);
    plan->fp_at = fp;
    plan->pc_at = fp + 1;
    plan->next = sender;
}

static void add_compiled(struct plan *plan) {
    unsigned index;
    do index = (unsigned)draw(NMETHODS);
    while (index % CLASSES == DEAD_CLASS || !fake_loaded(index % CLASSES));
    struct fake_nmethod *nmethod = fake_nmethods[index];
    uintptr_t id = fake_id(index % CLASSES, index % METHODS_EACH);
    for (unsigned inlined = plan->count ? (unsigned)draw(4) : 0; inlined; inlined--) {
        uintptr_t other = fake_id(draw_class(), (unsigned)draw(METHODS_EACH));
        if (other != id) add_call(plan, other, (jint)draw(BYTECODES));
    }
    size_t at = draw(2) ? draw(380) : RECORD_STEP * (1 + draw(RECORDS));
    size_t depth = at % RECORD_STEP || !at ? 0 : at / RECORD_STEP;
    if (strcmp(nmethod->name, "native nmethod") == 0) add_own(plan, id, JAVA_BCI_NATIVE);
    else if (!depth) add_own(plan, id, JAVA_BCI_INEXACT);
    else
        while (depth--)
            add_own(plan, fake_id(index % CLASSES, (index + (unsigned)depth) % METHODS_EACH), (jint)depth + 1);
    plan->renewed += fake_renewed(index % CLASSES);
    plan->nmethod = nmethod;
    plan->call_of_nmethod = plan->count;
    add_call(plan, id, (jint)draw(BYTECODES));
    uintptr_t pc = (uintptr_t)&nmethod->code[at], *end = plan->next + nmethod->frame_words;
    plan->codes[plan->code_count++] = (struct java_check){pc, (uint32_t)nmethod->compile_id};
    *plan->pc_at = pc;
    /* Compiled code keeps any word in fp; the frame's caller may need it. */
    if (draw(2)) *plan->fp_at = draw(UINT64_MAX);
    plan->fp_at = end - 2;
    plan->pc_at = end - 1;
    plan->next = end;
}

static void add_entry(struct plan *plan, bool outermost) {
    uintptr_t *fp = plan->next + 6 + draw(6), *wrapper = fp + 2 + draw(6), *sp = wrapper + 6 + draw(6);
    *plan->pc_at = fake_call_stub;
    *plan->fp_at = (uintptr_t)fp;
    fp[fake_layout.wrapper_slot] = (uintptr_t)wrapper;
    uintptr_t *anchor_sp = wrapper + fake_layout.wrapper_sp / 8, *anchor_pc = wrapper + fake_layout.wrapper_pc / 8;
    *anchor_sp = outermost ? 0 : (uintptr_t)sp;
    *anchor_pc = 0;
    plan->fp_at = wrapper + fake_layout.wrapper_fp / 8;
    plan->pc_at = draw(2) ? anchor_pc : sp - 1;
    plan->next = sp;
}

static void build(struct plan *plan) {
    plan->at = (struct unwind_registers){0};
    plan->count = plan->code_count = plan->method_count = plan->renewed = 0;
    plan->own_count = 0;
    plan->own_ends = false;
    plan->nmethod = NULL;
    plan->bcp = NULL;
    plan->next = room + (draw(8) ? draw(ROOM / 4) : 0);
    plan->at.sp = (uintptr_t)plan->next;
    plan->pc_at = &plan->at.pc;
    plan->fp_at = &plan->at.fp;
    unsigned interpreted = (unsigned)draw(9); /* in eight frames */
    for (unsigned frames = 1 + (unsigned)draw(draw(16) ? 24 : 70); frames; frames--) {
        if (plan->count && draw(8) == 0) add_entry(plan, false);
        if (draw(8) < interpreted) add_interpreted(plan);
        else add_compiled(plan);
    }
    add_entry(plan, true);
}

/* Makes one mistake that a walk must notice.  False: the plan has no place for it. */
static bool spoil(struct plan *plan) {
    uintptr_t other = fake_id(DEAD_CLASS, 0);
    switch (draw(4)) {
    case 0: plan->calls[plan->count - 1].method = (jmethodID)other; return true;
    case 1: plan->calls[0].method = (jmethodID)other; return true;
    case 2:
        if (plan->bcp) *plan->bcp += 1;
        return plan->bcp;
    default:
        if (plan->nmethod) plan->calls[plan->call_of_nmethod].method = (jmethodID)other;
        return plan->nmethod;
    }
}

/* Mostly words that a stack holds: ascending addresses in the stack, addresses of code. */
static uintptr_t draw_word(uintptr_t here) {
    uintptr_t low = (uintptr_t)room;
    switch (draw(12)) {
    case 0: return draw(UINT64_MAX);
    case 1: return low - 2 * PAGE + draw(STACK + 4 * PAGE); /* also in the guard pages, and odd */
    case 2: return low - 2 * PAGE + 8 * draw((STACK + 4 * PAGE) / 8);
    case 3:
    case 4: return here - 256 + 8 * draw(64);
    case 5: return 0;
    case 6:
    case 7: return fake_torn_pointer();
    case 8: return (uintptr_t)fake_method((unsigned)draw(CLASSES), (unsigned)draw(METHODS_EACH));
    default: return fake_torn_pc();
    }
}

/* Makes an entry frame that leads to itself, by the same fp or by an sp above the frame. */
static void tear_into_a_cycle(struct plan *plan) {
    uintptr_t *sp = &room[64 + draw(ROOM / 2)], *fp = sp - 16 + draw(32), *wrapper = sp + 24;
    plan->at.sp = (uintptr_t)(sp - 32);
    plan->at.pc = wrapper[fake_layout.wrapper_pc / 8] = fake_call_stub;
    plan->at.fp = wrapper[fake_layout.wrapper_fp / 8] = (uintptr_t)fp;
    wrapper[fake_layout.wrapper_sp / 8] = (uintptr_t)sp;
    fp[fake_layout.wrapper_slot] = (uintptr_t)wrapper;
}

static void tear(struct plan *plan) {
    size_t first = (plan->at.sp - (uintptr_t)room) / 8, words = (size_t)((uintptr_t)plan->next - plan->at.sp) / 8;
    if (draw(8) == 0) words = 24;
    for (unsigned times = 1 + (unsigned)draw(12); times; times--) {
        uintptr_t *at = &room[first + draw(words)];
        *at = draw_word((uintptr_t)at);
    }
    if (draw(64) == 0) tear_into_a_cycle(plan);
    if (draw(4) == 0) plan->at.pc = fake_torn_pc();
    if (draw(4) == 0) plan->at.fp = draw_word(plan->at.sp);
    if (draw(8) == 0) plan->at.sp = (uintptr_t)(draw(2) ? room : &room[draw(ROOM)]);
    if (draw(8) == 0) plan->count = 1 + (unsigned)draw(plan->count);
    if (draw(8) == 0) plan->calls[draw(plan->count)].method = (jmethodID)fake_id(draw_class(), 0);
    /* Recursion, also from inlined code. */
    if (draw(8) == 0)
        for (unsigned i = 1; i < plan->count; i++) plan->calls[i] = plan->calls[draw(i)];
    fake_vm_tear();
}

/* A walk that succeeds must have read the words that are there, and none below the frames. */
static const char *judge_reads(const struct plan *plan, const struct unwind_trace *words) {
    for (uint32_t i = 0; i < words->count; i++) {
        const struct unwind_read *read = &words->reads[i];
        if ((uintptr_t)read->at < plan->at.sp || read->word != *read->at) return "read what is not there";
    }
    return NULL;
}

static const char *judge_checks(const struct plan *plan, const struct java_trace *trace) {
    if (trace->codes != plan->code_count || trace->methods != plan->method_count ||
        memcmp(trace->code, plan->codes, trace->codes * sizeof *trace->code) != 0 ||
        memcmp(trace->method, plan->methods, trace->methods * sizeof *trace->method) != 0)
        return "depends on something else";
    if (!java_walk_holds(trace->code, trace->codes, trace->method, trace->methods)) return "does not hold";
    if (plan->nmethod) {
        plan->nmethod->compile_id++; /* other code in its place */
        bool holds = java_walk_holds(trace->code, trace->codes, trace->method, trace->methods);
        plan->nmethod->compile_id--;
        if (holds) return "holds with other code";
    }
    if (trace->methods) {
        struct fake_method *method = (struct fake_method *)trace->method[draw(trace->methods)].what;
        method->constants->number ^= 1; /* another method in its place */
        bool holds = java_walk_holds(trace->code, trace->codes, trace->method, trace->methods);
        method->constants->number ^= 1;
        if (holds) return "holds with another method";
    }
    return NULL;
}

/* Walks without AsyncGetCallTrace, with room for a few frames or for all. */
static const char *walk_alone(const struct plan *plan, struct call_frame *calls, bool sound) {
    jint room = draw(4) ? CALLS : 1 + (jint)draw(plan->own_count + 4);
    bool whole;
    jint count = java_stack(&plan->at, calls, room, &whole);
    if (count < 0 || count > room) return "more frames than there is room for";
    if (!sound) return NULL;
    jint expected = (jint)plan->own_count < room ? (jint)plan->own_count : room;
    if (count != expected) return "its own walk finds another number of frames";
    if (memcmp(calls, plan->own, (size_t)count * sizeof *calls) != 0) return "its own walk finds other frames";
    if (whole != (!plan->own_ends && (jint)plan->own_count < room)) return "does not know whether that is all";
    return NULL;
}

/* java_stack_correct must leave right results of AsyncGetCallTrace alone. */
static const char *correct(const struct plan *plan, struct call_frame *calls, bool sound) {
    jint count = (jint)plan->own_count;
    memcpy(calls, plan->own, plan->own_count * sizeof *calls);
    enum java_first first = java_stack_correct(&plan->at, calls, &count, CALLS);
    if (count < 0 || count > CALLS) return "corrects to more frames than there is room for";
    bool same = count == (jint)plan->own_count && memcmp(calls, plan->own, (size_t)count * sizeof *calls) == 0;
    return sound && (first != JAVA_FIRST_RIGHT || !same) ? "corrects what is right" : NULL;
}

static const char *walk_one(struct plan *plan, struct call_frame *calls_first, struct call_frame *calls_end,
                            struct unwind_read *reads, struct java_trace *trace) {
    build(plan);
    bool fits = plan->code_count <= JAVA_CODES && plan->method_count <= JAVA_METHODS, wrong = false;
    enum { SOUND, SPOILED, TORN } kind = draw(4) == 0 ? SOUND : draw(12) == 0 && spoil(plan) ? SPOILED : TORN;
    if (kind == TORN) tear(plan);
    struct call_frame *calls = draw(2) ? calls_first : calls_end - plan->count;
    memcpy(calls, plan->calls, plan->count * sizeof *calls);
    struct unwind_trace words = {.reads = reads, .room = READS};
    if (kind == TORN && draw(8) == 0) words.reads += READS - (words.room = (uint32_t)draw(8));
    bool whole = false;
    unsigned tries = kind == SOUND && fits ? 1 + plan->renewed * RENEWAL : 1;
    while (tries-- && !whole) {
        words.count = 0;
        words.fp = NULL;
        whole = java_walk(&plan->at, calls, (jint)plan->count, &words, trace);
    }
    const char *failure = whole ? judge_reads(plan, &words) : NULL;
    static struct call_frame own[CALLS + SCOPES];
    /* Without AsyncGetCallTrace the walk copies the Method of each interpreted frame, which takes microseconds. */
    bool alone = draw(8) == 0;
    if (!failure && alone) failure = walk_alone(plan, own, kind == SOUND);
    if (!failure && alone && plan->own_count) failure = correct(plan, own, kind == SOUND);
    switch (kind) {
    case SOUND:
        if (whole && !fits) return "more checks than there is room for";
        wrong = whole != (fits && words.count <= words.room);
        understood += whole;
        if (whole && !failure) failure = judge_checks(plan, trace);
        break;
    case SPOILED:
        wrong = whole;
        spoiled++;
        break;
    case TORN:
        torn_understood += whole;
        refused += !whole;
        if (whole && !java_walk_holds(trace->code, trace->codes, trace->method, trace->methods))
            failure = "does not hold";
        for (uint32_t i = 0; i < 8; i++) trace->code[i] = (struct java_check){fake_torn_pc(), draw(2000)};
        java_walk_holds(trace->code, 1 + (uint32_t)draw(8), NULL, 0);
        break;
    }
    return wrong ? kind == SOUND ? "a sound stack is refused" : "a mistake is not noticed" : failure;
}

/* The torn words are local variables, so they lie in the thread's own stack; the guard page becomes writable again at
 * the end.  No sanitizer: walks would read its marks between variables. */
static __attribute__((noinline, no_sanitize("address"))) void *walk_all(void *unused) {
    (void)unused;
    static struct plan plan;
    uintptr_t words[ROOM + 2 * PAGE / sizeof(uintptr_t)], guard = ((uintptr_t)words + PAGE - 1) & -(uintptr_t)PAGE;
    static uintptr_t high;
    room = (uintptr_t *)(guard + PAGE);
    struct call_frame *calls = (struct call_frame *)fake_island(CALLS * sizeof *calls);
    struct unwind_read *reads = (struct unwind_read *)(fake_island(2 * PAGE) + 2 * PAGE) - READS;
    struct java_trace *trace = (struct java_trace *)(fake_island(PAGE) + PAGE) - 1;
    for (size_t i = 0; i < ROOM; i++) room[i] = draw_word((uintptr_t)&room[i]);
    if (!stack_bounds((uintptr_t)room, &high) || mprotect((void *)guard, PAGE, PROT_NONE) != 0) return "no stack";
    const char *failure = NULL;
    for (uint64_t round = 0; round < rounds && !failure; round++) {
        if (round % 1024 == 0) alarm(PATIENCE);
        if (round % 256 == 0) fake_vm_come_and_go();
        failure = walk_one(&plan, calls, calls + CALLS, reads, trace);
    }
    mprotect((void *)guard, PAGE, PROT_READ | PROT_WRITE);
    return (void *)failure;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    rounds = strtoull(argv[1], NULL, 10);
    fake_vm_begin(strtoull(argv[2], NULL, 10));
    if (!java_walk_begin(&fake_layout)) return puts("no VM"), 1;
    scopes_begin(&fake_scope_layout);
    java_stack_begin(&fake_layout);
    char *stack = (char *)fake_island(STACK);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK);
    pthread_t thread;
    void *failure;
    if (pthread_create(&thread, &attributes, walk_all, NULL) != 0) return 1;
    pthread_join(thread, &failure);
    if (failure) puts(failure);
    printf("understood %lu spoiled %lu torn-understood %lu refused %lu\n", understood, spoiled, torn_understood,
           refused);
    return failure != NULL;
}
