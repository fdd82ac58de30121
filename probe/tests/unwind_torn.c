/*
 * unwind_torn ROUNDS SEED [LIBRARY.so]: walks stacks of random words from random registers.  The words lead into all
 * loaded code, and into functions with false rules.  Another thread loads and unloads LIBRARY, and many words lead
 * into it: a rule that is read while the library is unmapped is a fault.
 *
 * No sanitizer: the torn words lie in the real stack of a thread, between an unreadable page and the thread's control
 * block, with another such page behind.  A read outside is a SIGSEGV, as in a JVM.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unwind_capture.h"

#if defined(__x86_64__)
/* False rules, one function each, as raw bytes of the section: no compiler writes such rules. */
#define LIE(name, rules)                                                                             \
    __asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n.cfi_startproc\n" rules \
            "\n.fill 32,1,0x90\n.cfi_endproc\n.size " #name ",.-" #name "\n");                       \
    extern const char name[];
LIE(lie_far, ".cfi_def_cfa rsp, 1073741824")
LIE(lie_below, ".cfi_def_cfa rsp, -8192")
LIE(lie_other, ".cfi_def_cfa rbx, 16")
LIE(lie_null, ".cfi_escape 0x0f, 3, 0x08, 0x10, 0x06")          /* CFA: *(16) */
LIE(lie_deref, ".cfi_escape 0x0f, 4, 0x73, 0x00, 0x06, 0x06")   /* CFA: **rbx */
LIE(lie_return, ".cfi_escape 0x16, 16, 2, 0x08, 0x10")          /* return address: 16 */
LIE(lie_saved, ".cfi_escape 0x10, 16, 3, 0x76, 0x80, 0x40")     /* return address at rbp - 8192 */
LIE(lie_endless, ".cfi_escape 0x0f, 4, 0x30, 0x2f, 0xfc, 0xff") /* jumps back forever */
LIE(lie_deep, ".cfi_offset 6, -1048576")
static const char *const lies[] = {lie_far,    lie_below, lie_other,   lie_null, lie_deref,
                                   lie_return, lie_saved, lie_endless, lie_deep};
#else
static const char *const lies[] = {(const char *)&lies};
#endif
enum { LIES = sizeof lies / sizeof *lies };

enum { TEXTS = 64, PAGE = 4096, TORN_WORDS = 4096, STACK = 1 << 20 };

static struct text {
    uintptr_t start, bytes;
} texts[TEXTS];
static size_t text_count;
static _Atomic uintptr_t coming, coming_bytes; /* the code of LIBRARY, which may be unmapped already */
static atomic_bool done;
static unsigned long reloads;
static uint64_t rounds, state;

static uint64_t draw(uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
}

static int collect(struct dl_phdr_info *info, size_t bytes, void *context) {
    (void)bytes, (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X && text_count < TEXTS)
            texts[text_count++] =
                (struct text){info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, info->dlpi_phdr[i].p_memsz};
    return 0;
}

static int find_coming(struct dl_phdr_info *info, size_t bytes, void *base) {
    (void)bytes;
    if (info->dlpi_addr != *(uintptr_t *)base) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X)) continue;
        atomic_store(&coming, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        atomic_store(&coming_bytes, info->dlpi_phdr[i].p_memsz);
    }
    return 1;
}

static void *reload(void *library) {
    while (!atomic_load(&done)) {
        struct link_map *map = dlopen(library, RTLD_NOW);
        if (!map) return dlerror();
        dl_iterate_phdr(find_coming, &map->l_addr);
        capture_modules_changed();
        dlclose(map);
        capture_modules_closed();
        reloads++;
    }
    return NULL;
}

static uintptr_t draw_pc(void) {
    uint64_t kind = draw(16);
    uintptr_t into = atomic_load(&coming), into_bytes = atomic_load(&coming_bytes);
    if (into_bytes && kind >= 8) return into + draw(into_bytes);
    if (kind < 6) return (uintptr_t)lies[draw(LIES)] + 1 + draw(16);
    if (kind == 6) return draw(UINT64_C(1) << 47);
    const struct text *text = &texts[draw(text_count)];
    return text->start + draw(text->bytes);
}

/* Mostly words that a stack holds: ascending addresses in the stack, addresses of code. */
static uintptr_t draw_word(uintptr_t here, uintptr_t low, uintptr_t high) {
    switch (draw(8)) {
    case 0: return draw(UINT64_MAX);
    case 1: return low - 2 * PAGE + 8 * draw((high - low + 4 * PAGE) / 8); /* also in the guard pages */
    case 2:
    case 3: return here + 8 * draw(64);
    default: return draw_pc();
    }
}

static struct capture capture;
static unsigned long frames, ends[4];

static void *tear(void *end) {
    /* The torn words are local variables, so they lie in the thread's own stack; the guard page becomes readable again
     * at the end. */
    static uintptr_t guard;
    uintptr_t room[TORN_WORDS + 2 * PAGE / sizeof(uintptr_t)];
    guard = ((uintptr_t)room + PAGE - 1) & -(uintptr_t)PAGE;
    uintptr_t *torn = (uintptr_t *)(guard + PAGE), low = (uintptr_t)torn, high = (uintptr_t)end;
    for (size_t i = 0; i < TORN_WORDS; i++) torn[i] = draw_word((uintptr_t)&torn[i], low, high);
    if (mprotect((void *)guard, PAGE, PROT_NONE) != 0) return "mprotect";
    for (uint64_t round = 0; round < rounds; round++) {
        for (int i = 0; i < 8; i++) {
            size_t at = draw(TORN_WORDS);
            torn[at] = draw_word((uintptr_t)&torn[at], low, high);
        }
        uintptr_t sp = draw(8) ? low + 8 * draw(TORN_WORDS) : low;
        struct unwind_registers registers = {.pc = draw_pc(), .sp = sp, .fp = draw_word(sp, low, high)};
        for (size_t i = 0; i < sizeof registers.saved / sizeof *registers.saved; i++)
            registers.saved[i] = draw_word(sp, low, high);
        capture_from(&capture, &registers);
        frames += capture.count;
        ends[capture.end]++;
    }
    mprotect((void *)guard, PAGE, PROT_READ | PROT_WRITE);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    rounds = strtoull(argv[1], NULL, 10);
    state = strtoull(argv[2], NULL, 10) * 2654435761u + 1;
    dl_iterate_phdr(collect, NULL);
    char *stack = mmap(NULL, STACK + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack + PAGE, STACK, PROT_READ | PROT_WRITE) != 0) return 1;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack + PAGE, STACK);
    pthread_t torn, reloading;
    if (argc > 3) pthread_create(&reloading, NULL, reload, argv[3]);
    pthread_create(&torn, &attributes, tear, stack + PAGE + STACK);
    void *failed, *not_loaded = NULL;
    pthread_join(torn, &failed);
    atomic_store(&done, true);
    if (argc > 3) pthread_join(reloading, &not_loaded);
    printf("frames %lu root %lu outside %lu truncated %lu lost %lu reloads %lu\n", frames, ends[UNWIND_ROOT],
           ends[UNWIND_NO_MODULE], ends[UNWIND_TRUNCATED], ends[UNWIND_LOST], reloads);
    return failed || not_loaded;
}
