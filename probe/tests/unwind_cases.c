/*
 * unwind_cases CASE [plugin.so]: compares one case of the unwinder with glibc's backtrace(), or with what the
 * program knows of itself.  Exit status 0 and a summary, or 1 and the difference.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "unwind_capture.h"

#define NOINLINE __attribute__((noinline))
/* Prevents a tail call. */
#define NO_TAIL_CALL() __asm__ volatile("")

static struct capture capture;
static size_t compared, rootless;

static NOINLINE void fail(const char *what) {
    fprintf(stderr, "%s: %zu frames (end %d, pc %#lx), expected %zu\n", what, capture.count, (int)capture.end,
            (unsigned long)capture.at.pc, capture.expected_count);
    for (size_t i = 0; i < capture.count || i < capture.expected_count; i++)
        fprintf(stderr, "%3zu %#18lx %#18lx\n", i, i < capture.count ? (unsigned long)capture.addresses[i] : 0,
                i < capture.expected_count ? (unsigned long)capture.expected[i] : 0);
    _exit(1);
}

static void check(bool right, const char *what) {
    if (!right) fail(what);
}

/* Do signal handlers return to this pc?  (`mov $15, %rax; syscall`, `mov x8, #139; svc #0`) */
static bool is_sigreturn(uintptr_t pc) {
#if defined(__x86_64__)
    return memcmp((const void *)pc, "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", 9) == 0;
#else
    return memcmp((const void *)pc, "\x68\x11\x80\xd2\x01\x00\x00\xd4", 8) == 0;
#endif
}

/* Set while a signal may interrupt code without rules: backtrace() must then find no more frames either. */
static bool rules_may_miss;

/* Compares every address, and the end.  unwind() writes an interrupted pc as pc + 1. */
static void compare(void) {
    bool lost = rules_may_miss && capture.end == UNWIND_LOST;
    check(lost || capture.end == UNWIND_ROOT, "did not reach the root");
    rootless += lost;
    check(capture.count == capture.expected_count && capture.count > 1, "another number of frames");
    for (size_t i = 0; i < capture.count; i++) {
        bool interrupted = i && is_sigreturn(capture.expected[i - 1]);
        check(capture.addresses[i] == capture.expected[i] + interrupted, "another frame");
    }
    compared++;
}

static NOINLINE void leaf(void) {
    capture_both(&capture);
    compare();
}

static NOINLINE int recurse(int depth) {
    volatile int kept[4] = {depth, depth + 1, depth + 2, depth + 3};
    if (depth == 0) leaf();
    else kept[1] += recurse(depth - 1);
    return kept[0] + kept[1];
}

static int by_value(const void *a, const void *b) {
    leaf();
    return *(const int *)a - *(const int *)b;
}

static NOINLINE void sort(void) {
    int numbers[] = {5, 3, 9, 1, 7};
    qsort(numbers, 5, sizeof *numbers, by_value);
}

/* Realigns the stack and moves it by an unknown amount: the CFA is then an expression. */
static NOINLINE int realigned(int bytes) {
    _Alignas(64) volatile char aligned[64] = {1};
    volatile char *moving = alloca((size_t)bytes);
    moving[0] = aligned[0];
    leaf();
    return moving[0] + (int)((uintptr_t)aligned % 64);
}

static NOINLINE int large_frame(void) {
    volatile char large[3 << 20]; /* its offset does not fit a packed rule */
    large[0] = 1;
    leaf();
    return large[0];
}

static void on_signal(int number) {
    (void)number;
    leaf();
}

static void handle(int number, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(number, &action, NULL);
}

static void *in_thread(void *unused) {
    recurse(7);
    sort();
    realigned(100);
    return unused;
}

static NOINLINE void threads(void) {
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, in_thread, NULL);
        pthread_join(thread, NULL);
    }
    /* A stack that the program maps, with an untouched part in the middle. */
    size_t bytes = 4 << 20;
    void *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, bytes);
    pthread_t thread;
    pthread_create(&thread, &attributes, in_thread, NULL);
    pthread_join(thread, NULL);
}

static void on_other_stack(int number) {
    (void)number;
    errno = 1234;
    capture_stack(&capture, CAPTURE_FRAMES);
    check(errno == 1234, "errno changed");
}

/* The unwinder does not walk a foreign stack: it cannot know what is mapped above. */
static NOINLINE void alternate_stack(void) {
    size_t bytes = 64 << 10;
    stack_t stack = {.ss_sp = malloc(bytes), .ss_size = bytes};
    sigaltstack(&stack, NULL);
    handle(SIGUSR1, on_other_stack, SA_ONSTACK);
    raise(SIGUSR1);
    check(capture.count == 0 && capture.end == UNWIND_LOST, "walked a foreign stack");
    leaf();
}

static NOINLINE void truncated(int depth) {
    if (depth > 0) {
        truncated(depth - 1);
        NO_TAIL_CALL();
        return;
    }
    capture_stack(&capture, 5);
    check(capture.count == 5 && capture.end == UNWIND_TRUNCATED, "not cut at five frames");
}

/* Generated code: calls its argument from its own frame. */
#if defined(__x86_64__)
static const unsigned char generated[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
enum { GENERATED_RETURN = 6 };
#else
static const unsigned char generated[] = {0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91, 0x00, 0x00,
                                          0x3f, 0xd6, 0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6};
enum { GENERATED_RETURN = 12 };
#endif

static void capture_only(void) {
    capture_stack(&capture, CAPTURE_FRAMES);
    NO_TAIL_CALL();
}

/* `at`: where to put the code, NULL for anywhere. */
static NOINLINE void generated_code(void *at) {
    void *code = mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
    check(code != MAP_FAILED, "mmap");
    memcpy(code, generated, sizeof generated);
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    __builtin___clear_cache(code, (char *)code + sizeof generated);
    for (int i = 0; i < 3; i++) {
        ((void (*)(void (*)(void)))code)(capture_only);
        uintptr_t *frame = (uintptr_t *)capture.at.fp, here = (uintptr_t)__builtin_frame_address(0);
        check(capture.end == UNWIND_NO_MODULE && capture.count == 1, "did not stop at the generated code");
        check(capture.at.pc == (uintptr_t)code + GENERATED_RETURN, "another pc");
        check((uintptr_t)frame == capture.at.sp, "sp and fp differ in a frame that set fp to sp");
        check(frame[1] - (uintptr_t)generated_code < 4096, "fp does not lead to the caller");
        check(capture.at.sp < here, "sp beyond the caller's frame");
        compared++;
    }
    munmap(code, 4096);
}

static const struct offheap_module *row_with(const char *end_of_path, unsigned *count) {
    const struct offheap_module *rows, *found = NULL;
    const char *strings;
    uint32_t used = capture_rows(&rows, &strings);
    *count = 0;
    for (uint32_t i = 0; i < used; i++) {
        const char *path = strings + rows[i].path;
        size_t length = strlen(path), wanted = strlen(end_of_path);
        if (length < wanted || strcmp(path + length - wanted, end_of_path) != 0) continue;
        found = &rows[i];
        ++*count;
    }
    return found;
}

/* Unloads a module, maps something else in its place, loads it again: no stale rule, one row. */
static NOINLINE void reload(const char *plugin) {
    unsigned count = 0;
    for (int round = 0; round < 20; round++) {
        void *handle = dlopen(plugin, RTLD_NOW);
        check(handle, "dlopen");
        void (*call)(void (*)(void)) = (void (*)(void (*)(void)))dlsym(handle, "call_back");
        call(leaf);
        const struct offheap_module *row = row_with("unwind_plugin.so", &count);
        check(row && row->gone == 0, "no row, or one that has gone");
        check((uintptr_t)call >= row->start && (uintptr_t)call < row->end, "the row is elsewhere");
        dlclose(handle);
        capture_modules_closed();
        check(row->gone != 0, "the row has not gone");
        generated_code((void *)((uintptr_t)call & -(uintptr_t)4096));
        leaf();
    }
    check(count <= 3, "a row for every reload");
}

#if defined(__x86_64__)
static volatile bool stepping;

static void on_step(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    leaf();
    if (!stepping) ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100l;
}

static int plain_order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* A signal after every instruction: prologues, epilogues, PLT stubs, the lazy resolver. */
static NOINLINE void single_step(void) {
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    char text[64];
    int numbers[] = {5, 3, 9, 1, 7, 2};
    stepping = rules_may_miss = true;
    __asm__ volatile("pushf\n\torl $0x100, (%%rsp)\n\tpopf" ::: "memory", "cc");
    snprintf(text, sizeof text, "%d %s %.3f", 42, "text", 3.14159);
    qsort(numbers, 6, sizeof *numbers, plain_order);
    free(strdup(text));
    getppid(); /* the first call: through the lazy resolver */
    stepping = false;
    NO_TAIL_CALL();
}
#endif

int main(int argc, char **argv) {
    const char *which = argc > 1 ? argv[1] : "";
    capture_modules_changed();
    leaf();
    if (!strcmp(which, "recursion")) {
        for (int depth = 0; depth < 200; depth += 13) recurse(depth);
    } else if (!strcmp(which, "qsort")) {
        sort();
    } else if (!strcmp(which, "realigned")) {
        for (int bytes = 1; bytes < 5000; bytes += 501) realigned(bytes);
    } else if (!strcmp(which, "large-frame")) {
        large_frame();
    } else if (!strcmp(which, "signal")) {
        handle(SIGUSR1, on_signal, 0);
        for (int i = 0; i < 3; i++) raise(SIGUSR1);
        kill(getpid(), SIGUSR1);
    } else if (!strcmp(which, "threads")) {
        threads();
    } else if (!strcmp(which, "alternate-stack")) {
        alternate_stack();
    } else if (!strcmp(which, "truncated")) {
        truncated(20);
    } else if (!strcmp(which, "generated-code")) {
        generated_code(NULL);
#if defined(__x86_64__)
    } else if (!strcmp(which, "single-step")) {
        single_step();
#endif
    } else if (!strcmp(which, "reload") && argc > 2) {
        reload(argv[2]);
    } else if (!strcmp(which, "modules")) {
        const struct offheap_module *rows;
        const char *strings;
        uint32_t used = capture_rows(&rows, &strings);
        for (uint32_t i = 0; i < used; i++) {
            printf("%#lx %#lx %#lx ", (unsigned long)rows[i].start, (unsigned long)rows[i].end,
                   (unsigned long)rows[i].bias);
            for (unsigned k = 0; k < rows[i].build_id_bytes; k++) printf("%02x", rows[i].build_id[k]);
            printf(" %s\n", strings + rows[i].path);
        }
        return 0;
    } else {
        fprintf(stderr, "no such case here: %s\n", which);
        return 2;
    }
    printf("compared %zu rootless %zu\n", compared, rootless);
    return 0;
}
