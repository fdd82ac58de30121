/*
 * Programs that stress the allocation hooks as production does.
 *
 *   adversarial SCENARIO           preloaded: the environment starts the probe
 *   adversarial SCENARIO LIBRARY OPTIONS
 *                                  attached: LIBRARY is loaded and started after some blocks exist,
 *                                  and stopped at the end
 *
 * Every scenario leaves blocks of ODD bytes behind, allocated after the start, and prints
 * how many: "truth COUNT".  The test finds exactly these in the live file.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* glibc has reallocarray from 2.26 on; the probe always has it. */
extern void *reallocarray(void *old, size_t count, size_t size) __attribute__((weak));

enum { ODD = 4099 };
static const char *self;
static void *volatile sink;
static int (*probe_stop)(void);

#define CHECK(what)                                                    \
    do {                                                               \
        if (!(what)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

static long leak(long count) {
    for (long i = 0; i < count; i++) sink = malloc(ODD);
    return count;
}

/* Two callers with equal frames: the same code allocates at the same stack pointer for both.  The size tells the test
 * which one called. */
static __attribute__((noinline)) void allocate_for(size_t size) {
    sink = malloc(size);
    __asm__ volatile("");
}
static __attribute__((noinline)) void first_caller(size_t size) {
    allocate_for(size);
    __asm__ volatile("");
}
static __attribute__((noinline)) void second_caller(size_t size) {
    allocate_for(size);
    __asm__ volatile("nop");
}

static long scenario_callers(void) {
    void (*const volatile callers[])(size_t) = {first_caller, second_caller};
    long left = 0;
    unsigned random = 1;
    for (int i = 0; i < 4000; i++) {
        random = random * 1103515245 + 12345;
        unsigned which = random >> 30 & 1;
        callers[which](which ? ODD + 16 : ODD);
        left += !which;
    }
    return left;
}

static jmp_buf jump;
static __attribute__((noinline)) void deep(int depth) {
    char *room = alloca((size_t)depth * 3 + 16);
    room[0] = (char)depth;
    sink = malloc(ODD);
    if (depth == 0) longjmp(jump, 1);
    deep(depth - 1);
    sink = room;
}

static long scenario_longjmp(void) {
    long count = 0;
    for (int i = 0; i < 50; i++)
        if (setjmp(jump) == 0) deep(20);
        else count += 21;
    return count;
}

static pthread_key_t key;
static _Atomic long at_exit_of_thread;
static void destroy(void *value) {
    free(value);
    sink = malloc(ODD);
    at_exit_of_thread++;
    /* Another round: glibc calls this destructor again. */
    if (at_exit_of_thread % 2) pthread_setspecific(key, malloc(100));
}

static void *use_key(void *unused) {
    (void)unused;
    pthread_setspecific(key, malloc(200));
    return NULL;
}

static long scenario_tls_destructors(void) {
    pthread_key_create(&key, destroy);
    for (int i = 0; i < 100; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, use_key, NULL) == 0);
        pthread_join(thread, NULL);
    }
    return at_exit_of_thread;
}

static long scenario_fork(void) {
    long count = leak(10);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            /* The parent's live file must show none of these. */
            for (int j = 0; j < 1000; j++) free(malloc(ODD));
            leak(100);
            void *range = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            munmap(range, 1 << 19);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    /* A raw clone runs no atfork handler of glibc. */
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        for (int j = 0; j < 100; j++) sink = malloc(ODD);
        syscall(SYS_exit_group, 0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return count + leak(10);
}

static long scenario_vfork(void) {
    long count = leak(5);
    for (int i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (child == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    CHECK(system("exit 7") == 7 << 8); /* posix_spawn inside */
    FILE *pipe = popen("echo hello", "r");
    char line[16];
    CHECK(pipe && fgets(line, sizeof line, pipe) && pclose(pipe) == 0);
    return count + leak(5);
}

static long scenario_exec(void) {
    if (!getenv("ADVERSARIAL_EXECUTED")) {
        setenv("ADVERSARIAL_EXECUTED", "1", 1);
        leak(1000); /* gone with the image */
        execl(self, self, "exec", (char *)NULL);
        CHECK(0);
    }
    return leak(7);
}

enum { HANDED = 2000 };
static void *handed[HANDED];
static void *allocate_some(void *unused) {
    (void)unused;
    for (int i = 0; i < HANDED; i++) handed[i] = malloc(ODD);
    return NULL;
}
static void *free_half(void *unused) {
    (void)unused;
    for (int i = 0; i < HANDED; i += 2) free(handed[i]);
    return NULL;
}

static long scenario_cross_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, allocate_some, NULL);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, free_half, NULL);
    pthread_join(thread, NULL);
    return HANDED / 2;
}

static void *older[1000]; /* blocks from before an attach */
static long scenario_older(void) {
    for (int i = 0; i < 1000; i += 2) free(older[i]);
    for (int i = 1; i < 1000; i += 2) CHECK(older[i] = realloc(older[i], ODD));
    return 500;
}

static long scenario_realloc(void) {
    long count = 0;
    for (int i = 0; i < 200; i++) {
        char *block = malloc(10);
        for (size_t size = 11; size < 3000; size = size * 3 / 2) {
            CHECK(block = realloc(block, size));
            block[size - 1] = 1;
        }
        if (i % 2) {
            CHECK(block = realloc(block, ODD));
            count++;
        } else {
            sink = realloc(block, 0); /* frees */
        }
    }
    void *block = malloc(ODD);
    volatile size_t impossible = PTRDIFF_MAX - 4096;
    CHECK(realloc(block, impossible) == NULL); /* fails; the block stays allocated */
    CHECK(!reallocarray || reallocarray(block, impossible, 16) == NULL);
    CHECK(malloc(impossible) == NULL && calloc(impossible, 16) == NULL);
    CHECK(malloc(SIZE_MAX) == NULL);
    void *empty = realloc(NULL, ODD);
    CHECK(empty);
    return count + 2;
}

static long scenario_alignment(void) {
    long count = 0;
    void *block;
    for (size_t alignment = sizeof(void *); alignment <= 1 << 22; alignment *= 2) {
        CHECK(posix_memalign(&block, alignment, ODD) == 0 && (uintptr_t)block % alignment == 0);
        sink = block;
        sink = memalign(alignment, ODD);
        CHECK(sink && (uintptr_t)sink % alignment == 0);
        sink = aligned_alloc(alignment, ODD);
        CHECK(sink);
        count += 3;
        CHECK(posix_memalign(&block, alignment, ODD) == 0);
        free(block);
    }
    CHECK(posix_memalign(&block, 3, ODD) != 0);
    sink = valloc(ODD);
    sink = pvalloc(ODD);
    sink = calloc(1, ODD);
    sink = reallocarray ? reallocarray(NULL, 1, ODD) : malloc(ODD);
    for (int i = 0; i < 100; i++) free(malloc(0));
    free(NULL);
    return count + 4;
}

static const char *library_path(char *path) {
    strcpy(path, self);
    strcpy(strrchr(path, '/'), "/libplugin.so");
    return path;
}

static long scenario_dlopen(void) {
    char path[4096];
    long count = 0;
    for (int i = 0; i < 100; i++) {
        void *plugin = dlopen(library_path(path), RTLD_NOW | RTLD_LOCAL);
        if (!plugin) fprintf(stderr, "%s\n", dlerror());
        CHECK(plugin);
        void *(*plugin_malloc)(size_t) = (void *(*)(size_t))dlsym(plugin, "plugin_malloc");
        CHECK(plugin_malloc);
        sink = plugin_malloc(ODD);
        count++;
        CHECK(dlclose(plugin) == 0);
        sink = malloc(ODD); /* another image may be at these addresses now */
        count++;
    }
    CHECK(dlopen("libdoesnotexist.so", RTLD_NOW) == NULL);
    void *(*by_name)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "malloc");
    sink = by_name(ODD);
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    CHECK(libc);
    by_name = (void *(*)(size_t))dlsym(libc, "malloc");
    sink = by_name(ODD);
    return count + 2;
}

static _Atomic long left_by_threads;
static void *come_and_go(void *unused) {
    void *blocks[50];
    for (int i = 0; i < 50; i++) blocks[i] = malloc(ODD);
    for (int i = 0; i < 49; i++) free(blocks[i]);
    left_by_threads++;
    sink = blocks[49];
    return unused;
}

static long scenario_threads(void) {
    for (int round = 0; round < 50; round++) {
        pthread_t threads[8];
        for (int i = 0; i < 8; i++) CHECK(pthread_create(&threads[i], NULL, come_and_go, NULL) == 0);
        for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    }
    return left_by_threads;
}

static _Atomic long by_handler;
static volatile sig_atomic_t main_is_inside_libc;
static void on_signal(int number) {
    (void)number;
    /* POSIX forbids malloc in a handler, but real programs call it.  It is safe here: the handler returns while the
     * main thread allocates. */
    if (main_is_inside_libc) return;
    free(malloc(100));
    by_handler++;
}

static long scenario_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    /* Neither handler may interrupt the other: malloc inside malloc is a case of test_reentry.py. */
    sigaddset(&action.sa_mask, SIGALRM);
    sigaddset(&action.sa_mask, SIGPROF);
    sigaction(SIGALRM, &action, NULL);
    char *stack = malloc(65536);
    stack_t alternate = {.ss_sp = stack, .ss_size = 65536};
    sigaltstack(&alternate, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGPROF, &action, NULL);
    struct itimerval often = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &often, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    long count = 0;
    while (by_handler < 200) {
        for (volatile int i = 0; i < 100000; i++) {}
        main_is_inside_libc = 1;
        sink = malloc(ODD);
        free(malloc(300));
        main_is_inside_libc = 0;
        count++;
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    setitimer(ITIMER_PROF, &never, NULL);
    return count;
}

static long scenario_mappings(void) {
    enum { PAGE = 4096, LENGTH = 64 * PAGE };
    int flags = MAP_PRIVATE | MAP_ANONYMOUS, prot = PROT_READ | PROT_WRITE;
    char *hole = mmap(NULL, LENGTH, prot, flags, -1, 0);
    CHECK(hole != MAP_FAILED && munmap(hole + 16 * PAGE, 16 * PAGE) == 0); /* 48 pages stay, in two ranges */
    char *covered = mmap(NULL, LENGTH, prot, flags, -1, 0);
    CHECK(mmap(covered + 8 * PAGE, 8 * PAGE, prot, flags | MAP_FIXED, -1, 0) == covered + 8 * PAGE); /* 64 */
    CHECK(mmap(covered, 4 * PAGE, PROT_NONE, flags | MAP_FIXED, -1, 0) == covered);                  /* 60 */
    char *moved = mmap(NULL, LENGTH, prot, flags, -1, 0);
    moved = mremap(moved, LENGTH, 4 * LENGTH, MREMAP_MAYMOVE); /* 256 */
    CHECK(moved != MAP_FAILED);
    moved = mremap(moved, 4 * LENGTH, LENGTH / 2, 0); /* 32 */
    CHECK(moved != MAP_FAILED && mremap(moved, LENGTH / 2, LENGTH / 2, 1 << 20) == MAP_FAILED);
    char *gone = mmap(NULL, LENGTH, prot, flags, -1, 0);
    CHECK(munmap(gone, LENGTH) == 0);
    char *reserved = mmap(NULL, LENGTH, PROT_NONE, flags, -1, 0);
    CHECK(mremap(reserved, LENGTH, 4 * LENGTH, MREMAP_MAYMOVE) != MAP_FAILED); /* PROT_NONE: counts no pages */
    printf("pages %d\n", 48 + 60 + 32);
    return leak(1);
}

/* A call that the kernel refuses changes no mapping. */
static long scenario_refusals(void) {
    enum { PAGE = 4096, LENGTH = 64 * PAGE };
    int flags = MAP_PRIVATE | MAP_ANONYMOUS, prot = PROT_READ | PROT_WRITE;
    char *kept = mmap(NULL, LENGTH, prot, flags, -1, 0), *target = mmap(NULL, LENGTH, prot, flags, -1, 0);
    CHECK(kept != MAP_FAILED && target != MAP_FAILED); /* 128 pages */
    CHECK(munmap(kept + 16, LENGTH - 16) == -1 && errno == EINVAL);
    CHECK(mmap(kept, LENGTH, prot, MAP_FIXED | MAP_SHARED, -1, 0) == MAP_FAILED && errno == EBADF);
    CHECK(mremap(kept, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, target + 16) == MAP_FAILED);
    /* The kernel merges these two neighbours: growth fails, shrinking cuts the second. */
    char *both = mmap(NULL, 4 * LENGTH, PROT_NONE, flags, -1, 0);
    CHECK(mmap(both, PAGE, prot, flags | MAP_FIXED, -1, 0) == both);
    CHECK(mmap(both + PAGE, LENGTH, prot, flags | MAP_FIXED, -1, 0) == both + PAGE);
    CHECK(mremap(both, PAGE + LENGTH, 2 * LENGTH, 0) == MAP_FAILED && errno == ENOMEM);
    CHECK(mremap(both, PAGE + LENGTH, LENGTH, 0) == both); /* 1 page, and 63 of 64 */
    printf("pages %d\n", 128 + 64);
    return leak(1);
}

/* Runs on the smallest stack that POSIX allows; the thread's own storage takes a part of it. */
static void *leak_ten(void *unused) {
    leak(10);
    return unused;
}

static long scenario_small_stacks(void) {
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN)) == 0);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, &attributes, leak_ten, NULL) == 0 && pthread_join(thread, NULL) == 0);
    }
    return 200;
}

static const struct {
    const char *name;
    long (*run)(void);
} scenarios[] = {
    {"callers", scenario_callers},
    {"longjmp", scenario_longjmp},
    {"tls_destructors", scenario_tls_destructors},
    {"fork", scenario_fork},
    {"vfork", scenario_vfork},
    {"exec", scenario_exec},
    {"cross_thread", scenario_cross_thread},
    {"older", scenario_older},
    {"realloc", scenario_realloc},
    {"alignment", scenario_alignment},
    {"dlopen", scenario_dlopen},
    {"threads", scenario_threads},
    {"signals", scenario_signals},
    {"mappings", scenario_mappings},
    {"refusals", scenario_refusals},
    {"small_stacks", scenario_small_stacks},
};

int main(int count, char **arguments) {
    self = arguments[0];
    for (int i = 0; i < 1000; i++) older[i] = malloc(50);
    if (count == 4) {
        void *library = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
        if (!library) fprintf(stderr, "%s\n", dlerror());
        CHECK(library);
        int (*start)(const char *) = (int (*)(const char *))dlsym(library, "offheap_start");
        probe_stop = (int (*)(void))dlsym(library, "offheap_stop");
        int error = start(arguments[3]);
        if (error) fprintf(stderr, "start: %d\n", error);
        CHECK(error == 0);
    }
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        if (strcmp(scenarios[i].name, arguments[1]) != 0) continue;
        printf("truth %ld\n", scenarios[i].run());
        if (probe_stop) CHECK(probe_stop() == 0);
        free(malloc(ODD));
        return 0;
    }
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) puts(scenarios[i].name);
    return 2;
}
