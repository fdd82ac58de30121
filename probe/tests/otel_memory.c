/*
 * Traces otel_memory:alloc and otel_memory:free of a preloaded liboffheap.so in its own process: a breakpoint in place
 * of each nop, as the kernel's uprobes put it there, and a handler that reads the registers of the arguments.
 *
 *     otel_memory ALLOC FREE ALLOC_SEMAPHORE FREE_SEMAPHORE SCENARIO
 *
 * The numbers are addresses in the library's file, from its notes.  Prints what the scenario did ("did ..."), and then
 * the events: "alloc PTR SIZE WEIGHTED", "free PTR".
 */
#define _GNU_SOURCE
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { EVENTS = 1 << 16 };

static struct event {
    uint64_t site, argument[3];
} events[EVENTS];
static volatile unsigned seen;
static uint64_t alloc_site, free_site;

static void at_breakpoint(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    mcontext_t *thread = &((ucontext_t *)context)->uc_mcontext;
    if (seen == EVENTS) abort();
    struct event *event = &events[seen++];
#if defined(__x86_64__)
    const greg_t *registers = thread->gregs;
    *event = (struct event){(uint64_t)registers[REG_RIP] - 1, /* int3 is as long as the nop */
                            {(uint64_t)registers[REG_RDI], (uint64_t)registers[REG_RSI], (uint64_t)registers[REG_RDX]}};
#else
    *event = (struct event){thread->pc, {thread->regs[0], thread->regs[1], thread->regs[2]}};
    thread->pc += 4;
#endif
}

static void put_breakpoint(uint64_t site) {
#if defined(__x86_64__)
    const uint8_t nop = 0x90, breakpoint = 0xcc;
#else
    const uint32_t nop = 0xd503201f, breakpoint = 0xd4200000;
#endif
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (memcmp((void *)site, &nop, sizeof nop) != 0) abort();
    if (mprotect((void *)(site & -page), page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) abort();
    memcpy((void *)site, &breakpoint, sizeof breakpoint);
    __builtin___clear_cache((char *)site, (char *)site + sizeof breakpoint);
}

static int base_of(struct dl_phdr_info *info, size_t size, void *base) {
    (void)size;
    if (!strstr(info->dlpi_name, "liboffheap.so")) return 0;
    *(uint64_t *)base = info->dlpi_addr;
    return 1;
}

/* The compiler must not know what becomes of a block. */
static void *volatile kept;

static void untraced(void) {
    for (int i = 0; i < 1000; i++) {
        kept = malloc(1000);
        free(kept);
    }
}

static void family(void) {
    void *block = kept = malloc(100);
    printf("did %p 100\n", block);
    void *longer = kept = realloc(block, 100000);
    printf("did %p 100000\n", longer);
    kept = realloc(longer, PTRDIFF_MAX); /* refused: the block lives on */
    kept = calloc(3, 7);
    printf("did %p 21\n", kept);
    free(kept);
    free(longer);
    kept = malloc(0);
    printf("did %p 0\n", kept);
    free(kept);
}

static void churn(void) {
    uint64_t bytes = 0;
    for (int i = 0; i < 100000; i++) {
        size_t size = i % 100 ? 16 + (size_t)i % 1000 : 100000;
        bytes += size;
        kept = malloc(size);
        free(kept);
    }
    printf("did %ju\n", (uintmax_t)bytes);
}

/* A child has no recording, so the frees in it must fire no event, not even those of the parent's blocks. */
static void child(void) {
    void *block = kept = malloc(100);
    unsigned before = seen;
    pid_t pid = fork();
    if (pid == 0) {
        free(block);
        kept = malloc(100);
        _exit((int)(seen - before));
    }
    int status;
    waitpid(pid, &status, 0);
    printf("did %d in the child\n", WEXITSTATUS(status));
    free(block);
}

int main(int count, char **words) {
    static char out[1 << 16];
    setvbuf(stdout, out, _IOFBF, sizeof out);
    uint64_t base = 0, address[4];
    if (count != 6 || !dl_iterate_phdr(base_of, &base)) return 2;
    for (int i = 0; i < 4; i++) address[i] = base + strtoull(words[i + 1], NULL, 16);
    alloc_site = address[0], free_site = address[1];
    struct sigaction action = {.sa_sigaction = at_breakpoint, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    put_breakpoint(alloc_site);
    put_breakpoint(free_site);

    const char *scenario = words[5];
    volatile uint16_t *semaphores[] = {(uint16_t *)address[2], (uint16_t *)address[3]};
    uint16_t tracers = strcmp(scenario, "untraced") != 0;
    for (int i = 0; i < 2; i++) *semaphores[i] += tracers;
    if (!tracers) untraced();
    else if (!strcmp(scenario, "family")) family();
    else if (!strcmp(scenario, "churn")) churn();
    else child();
    for (int i = 0; i < 2; i++) *semaphores[i] -= tracers;

    for (unsigned i = 0; i < seen; i++) {
        const struct event *event = &events[i];
        const uint64_t *argument = event->argument;
        if (event->site == alloc_site)
            printf("alloc %p %ju %ju\n", (void *)argument[0], (uintmax_t)argument[1], (uintmax_t)argument[2]);
        else printf("free %p\n", (void *)argument[0]);
    }
    return 0;
}
