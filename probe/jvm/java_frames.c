#define _GNU_SOURCE
#include "jvm/java_frames.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include "jvm/java_stack.h"
#include "jvm/method_ids.h"
#include "jvm/method_names.h"
#include "jvm/scopes.h"
#include "jvm/vm_layout.h"
#include "platform/elf_image.h"
#include "platform/system.h"
#include "store/frame_encoding.h"
#include "store/live_file.h"
#include "unwind/stack_bounds.h"

enum { DEPTH = 256 }; /* 4 KiB of the calling thread's stack */

/* Follows HotSpot's prims/forte.cpp, as struct call_frame. */
struct call_trace {
    JNIEnv *env;
    jint count; /* number of frames, or the reason for none */
    struct call_frame *frames;
};
enum { COLLECTING_GARBAGE = -2, NOT_WALKABLE = -4 };
typedef void walk_function(struct call_trace *trace, jint depth, void *ucontext);
typedef jint created_vms_function(JavaVM **vms, jint room, jint *count);

static struct {
    const struct link_map *image;
    created_vms_function *created_vms;
    walk_function *walk;
    struct vm_layout layout;
    bool layout_known;
    struct vm_code_layout code_layout;
    bool code_layout_known;
    struct vm_scope_layout scope_layout;
    bool scope_layout_known;
    ptrdiff_t env_in_thread; /* JavaThread -> its JNIEnv; 0 unknown */
    _Atomic(JavaVM *) vm;    /* NULL: hooks walk no Java stack */
} java;

/* Runs under the dynamic linker's lock, which makes the link map safe to follow. */
static int find_image(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)info, (void)size, (void)unused;
    for (const struct link_map *image = _r_debug.r_map; image; image = image->l_next)
        if (elf_symbol(image, "JNI_GetCreatedJavaVMs")) {
            java.image = image;
            break;
        }
    return 1;
}

bool java_discover(void) {
    if (__atomic_load_n(&java.created_vms, __ATOMIC_ACQUIRE)) return true;
    dl_iterate_phdr(find_image, NULL);
    if (!java.image) return false;
    /* An image is in the map before it is relocated; until then a call into it crashes.  The thread that loads the
     * image holds the dynamic linker's load lock until the image is ready; dladdr takes that lock. */
    Dl_info unused;
    dladdr(java.image->l_ld, &unused);
    java.walk = (walk_function *)elf_symbol(java.image, "AsyncGetCallTrace");
    java.layout_known = vm_layout_read(java.image, &java.layout);
    java.code_layout_known = vm_code_layout_read(java.image, &java.code_layout);
    java.scope_layout_known = vm_scope_layout_read(java.image, &java.scope_layout);
    created_vms_function *created_vms = (created_vms_function *)elf_symbol(java.image, "JNI_GetCreatedJavaVMs");
    __atomic_store_n(&java.created_vms, created_vms, __ATOMIC_RELEASE);
    return true;
}

const void *java_flag(const char *name) { return java.image ? vm_flag(java.image, name) : NULL; }

JavaVM *java_created_vm(void) {
    JavaVM *vm = NULL;
    jint count = 0;
    if (!java.created_vms || java.created_vms(&vm, 1, &count) != JNI_OK || count < 1) return NULL;
    return vm;
}

/* java.lang.Thread.eetop is the address of the thread's JavaThread, in every HotSpot. */
static void calibrate(JNIEnv *env, jthread thread) {
    jclass class = jni_find_class(env, "java/lang/Thread");
    jfieldID eetop = class ? jni_field(env, class, "eetop", "J") : NULL;
    if (eetop) {
        uintptr_t java_thread = (uintptr_t)jni_get_long(env, thread, eetop);
        if (java_thread) java.env_in_thread = (ptrdiff_t)((uintptr_t)env - java_thread);
    }
    if (jni_exception_check(env)) jni_exception_clear(env);
    if (class) jni_delete_local_ref(env, class);
}

static jmethodID some_method(JNIEnv *env) {
    jclass class = jni_find_class(env, "java/lang/Thread");
    jmethodID method = class ? jni_static_method(env, class, "currentThread", "()Ljava/lang/Thread;") : NULL;
    if (jni_exception_check(env)) jni_exception_clear(env);
    if (class) jni_delete_local_ref(env, class);
    return method;
}

bool java_begin(JavaVM *vm, JNIEnv *env, jthread thread) {
    if (!java.walk) return false;
    if (java.layout_known && !java.env_in_thread) calibrate(env, thread);
    if (java.code_layout_known) {
        bool known = java_walk_begin(&java.code_layout);
        scopes_begin(known && java.scope_layout_known ? &java.scope_layout : NULL);
        java_stack_begin(known ? &java.code_layout : NULL);
        method_ids_begin(&java.code_layout, some_method(env));
    }
    atomic_store_explicit(&java.vm, vm, memory_order_release);
    return true;
}

void java_end(void) { atomic_store_explicit(&java.vm, NULL, memory_order_release); }

/* GetEnv reads HotSpot's thread-local and nothing else. */
static JNIEnv *current_env(void) {
    JavaVM *vm = atomic_load_explicit(&java.vm, memory_order_acquire);
    JNIEnv *env = NULL;
    if (!vm || vm_get_env(vm, &env, JNI_VERSION_1_6) != JNI_OK) return NULL;
    return env;
}

bool java_known(void) { return atomic_load_explicit(&java.vm, memory_order_acquire) != NULL; }

bool java_thread(void) { return current_env() != NULL; }

static void fill_context(ucontext_t *context, const struct unwind_registers *at) {
    memset(&context->uc_mcontext, 0, sizeof context->uc_mcontext);
#if defined(__x86_64__)
    context->uc_mcontext.gregs[REG_RIP] = (greg_t)at->pc;
    context->uc_mcontext.gregs[REG_RSP] = (greg_t)at->sp;
    context->uc_mcontext.gregs[REG_RBP] = (greg_t)at->fp;
#elif defined(__aarch64__)
    context->uc_mcontext.pc = at->pc;
    context->uc_mcontext.sp = at->sp;
    context->uc_mcontext.regs[29] = at->fp;
#endif
}

/* The thread's frame anchor, by which HotSpot itself finds the thread's last Java frame. */
struct anchor {
    uintptr_t *sp, *pc, *fp;
    uintptr_t old_sp, old_pc, old_fp;
};

static void set_anchor(const struct anchor *anchor, uintptr_t sp, uintptr_t pc, uintptr_t fp) {
    *anchor->fp = fp;
    *anchor->pc = pc;
    /* Stores sp last: a non-zero sp makes an anchor valid. */
    atomic_signal_fence(memory_order_seq_cst);
    *(volatile uintptr_t *)anchor->sp = sp;
}

/* Opens the anchor only of a thread that is inside the VM: a safepoint or a handshake waits until the thread leaves
 * that state, so nobody else reads the changed anchor. */
static bool open_anchor(JNIEnv *env, struct anchor *anchor) {
    if (!java.env_in_thread) return false;
    char *thread = (char *)env - java.env_in_thread;
    if (*(volatile int *)(thread + java.layout.thread_state) != THREAD_IN_VM) return false;
    anchor->sp = (uintptr_t *)(thread + java.layout.last_java_sp);
    anchor->pc = (uintptr_t *)(thread + java.layout.last_java_pc);
    anchor->fp = (uintptr_t *)(thread + java.layout.last_java_fp);
    anchor->old_sp = *anchor->sp;
    anchor->old_pc = *anchor->pc;
    anchor->old_fp = *anchor->fp;
    return true;
}

static void restore_anchor(const struct anchor *anchor) {
    set_anchor(anchor, anchor->old_sp, anchor->old_pc, anchor->old_fp);
}

/* AsyncGetCallTrace refuses (-3) an anchor that is not complete.  There are two kinds:
 *   - the interpreter calls the VM with last_Java_sp set and last_Java_pc 0; HotSpot fills in sp[-1], the return
 *     address, on demand (JavaFrameAnchor::make_walkable), as this function does;
 *   - while the VM is about to call Java (JavaCallWrapper), the anchor is empty.  The unwound registers are its
 *     values: `at` is the caller of the VM. */
static void complete_anchor(const struct anchor *anchor, const struct unwind_registers *at) {
    if (!anchor->old_sp) set_anchor(anchor, at->sp, at->pc, at->fp);
    else if (!anchor->old_pc) *anchor->pc = ((const uintptr_t *)anchor->old_sp)[-1];
}

/* AsyncGetCallTrace also refuses (-4) to begin at a stub of the C1 compiler: all are marked "frame never safe"
 * (Runtime1::generate_blob_for).  These stubs keep a frame pointer, by which leave_stub steps out to the compiled
 * method that called the stub.  False if there is no such frame. */
static bool leave_stub(const struct anchor *anchor) {
    enum { STUB_FRAME_LIMIT = 16 << 10 }; /* the stub saves every register, also those of AVX-512 */
    uintptr_t sp = *anchor->sp, fp = *anchor->fp, high;
    if (fp <= sp || fp - sp > STUB_FRAME_LIMIT || fp % sizeof(uintptr_t)) return false;
    const uintptr_t *frame = (const uintptr_t *)fp;
    if (!stack_bounds(sp, &high) || fp + 2 * sizeof *frame > high) return false;
    set_anchor(anchor, fp + 2 * sizeof *frame, frame[1], frame[0]);
    return true;
}

/* AsyncGetCallTrace refuses (-2) while the VM collects garbage, and threads in native code keep running.  They cannot
 * return to Java before the collection ends, so a short wait costs them little; a long collection costs the frames.
 * Never wait inside the VM (or where that is unknown): a safepoint would wait for this thread. */
static bool wait_for_collector(int round) {
    enum { ROUNDS = 100 };
    if (round >= ROUNDS || !java.env_in_thread) return false;
    /* Not nanosleep(3), which is a cancellation point: malloc must not be one. */
    syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = 150000}, NULL);
    return true;
}

#ifdef COMPARE_WALKS
#include "jvm/compare_walks.h"

struct asked {
    JNIEnv *env;
    ucontext_t *context;
};

static jint ask(struct call_frame *calls, jint room, void *context) {
    const struct asked *asked = context;
    struct call_trace call = {.env = asked->env, .frames = calls};
    java.walk(&call, room, asked->context);
    return call.count;
}
#endif

/* Out of line, and only for threads of the VM, whose stacks are large: takes 5 KiB of stack. */
static __attribute__((noinline)) size_t walk_java(JNIEnv *env, const struct unwind_registers *at, uint64_t *frames,
                                                  size_t max, bool *joined, struct unwind_trace *words,
                                                  struct java_trace *trace) {
    struct call_frame calls[DEPTH];
    struct call_trace call = {.env = env, .frames = calls};
    ucontext_t context;
    fill_context(&context, at);
    jint depth = max < DEPTH ? (jint)max : DEPTH;
    struct anchor anchor = {0};
    bool in_vm = open_anchor(env, &anchor);
    if (in_vm) complete_anchor(&anchor, at);
    java.walk(&call, depth, &context);
#ifdef COMPARE_WALKS
    walks_compare(ask, &(struct asked){env, &context}, at);
#endif
    bool whole = true;
    jint why = call.count;
    if (why <= 0) call.count = java_stack(at, calls, depth, &whole);
    for (int round = 0; call.count <= 0 && why == COLLECTING_GARBAGE && !in_vm && wait_for_collector(round); round++) {
        java.walk(&call, depth, &context);
        why = call.count;
    }
    if (why == NOT_WALKABLE && call.count <= 0 && in_vm && leave_stub(&anchor)) {
        java.walk(&call, depth, &context);
        why = call.count;
    }
    if (in_vm) restore_anchor(&anchor);
    if (call.count <= 0) {
        live_lose(OFFHEAP_LOST_JAVA);
        frames[0] = frame_gap((uint32_t)-why);
        return 1;
    }
    if (why > 0) java_stack_correct(at, calls, &call.count, depth);
    uint32_t native = words ? words->count : 0;
    if (words) trace->complete = whole && call.count < depth && java_walk(at, calls, call.count, words, trace);
    /* On JDK 11 AsyncGetCallTrace ends at an interpreted lambda form and does not say so. */
    if (why > 0 && (!words || trace->cut)) {
        jint found = java_stack(at, calls, depth, &whole);
        if (found > call.count) call.count = found;
        else whole = true; /* both found the same frames */
        if (words) {
            words->count = native;
            trace->complete = whole && call.count < depth && java_walk(at, calls, call.count, words, trace);
        }
    }
    bool inexact = false;
    for (jint i = 0; i < call.count; i++) {
        frames[i] = frame_java(method_slot(calls[i].method), calls[i].bci);
        inexact |= calls[i].bci == JAVA_BCI_INEXACT;
    }
    if (inexact) {
        live_lose(OFFHEAP_JAVA_INEXACT);
        if (words) trace->complete = false; /* so that each such sample is counted */
    }
    live_lose(OFFHEAP_JAVA_JOINED);
    *joined = true;
    if (!whole && (size_t)call.count < max) frames[call.count++] = frame_gap((uint32_t)-why);
    return (size_t)call.count;
}

size_t java_frames(const struct unwind_registers *at, uint64_t *frames, size_t max, bool *joined,
                   struct unwind_trace *words, struct java_trace *trace) {
    *joined = false;
    JNIEnv *env = current_env();
    return env && max ? walk_java(env, at, frames, max, joined, words, trace) : 0;
}
