#include "got_library.h"

#include <stdatomic.h>

#include "hooks/got.h"
#include "platform/elf_image.h"
#include "platform/mappings.h"

static atomic_ulong mallocs;
static void *(*next_malloc)(size_t);
static void (*next_free)(void *);

static void *hook_malloc(size_t size) {
    atomic_fetch_add(&mallocs, 1);
    return next_malloc(size);
}

static void hook_free(void *block) { next_free(block); }

static const struct got_hook hooks[] = {{"malloc", hook_malloc}, {"free", hook_free}, {NULL, NULL}};

static long patch(void) { return got_patch(hooks); }
static long follow(void) { return got_follow(); }
static unsigned long counted(void) { return atomic_load(&mallocs); }
static void *next(const char *name) { return elf_next_symbol(hooks, name); }
static void *symbol(const void *map, const char *name) { return elf_symbol(map, name); }

struct dump {
    struct got_slot *slots;
    size_t count, max;
    const struct elf_image *image;
};

static void add_slot(void **slot, const char *name, enum elf_slot_kind kind, bool defined, void *context) {
    (void)name, (void)kind, (void)defined;
    struct dump *dump = context;
    struct mapping mapping;
    if (dump->count == dump->max || !elf_covers(dump->image, (uintptr_t)slot, sizeof *slot)) return;
    if (!mapping_of((uintptr_t)slot, &mapping, NULL, 0)) return;
    dump->slots[dump->count++] = (struct got_slot){slot, *slot, mapping.protection};
}

static bool add_image(const struct elf_image *image, void *context) {
    struct dump *dump = context;
    dump->image = image;
    bool ours = (uintptr_t)hooks >= image->start && (uintptr_t)hooks < image->end;
    if (!image->loader && !ours) elf_each_slot(&image->map, add_slot, dump);
    return false;
}

static size_t dump(struct got_slot *slots, size_t max) {
    struct dump all = {.slots = slots, .max = max};
    elf_each_image(add_image, &all);
    return all.count;
}

__attribute__((visibility("default"))) struct got_api got_api = {patch,   follow, got_restore, dump,
                                                                 counted, next,   symbol,      NULL};

__attribute__((constructor)) static void find(void) {
    next_malloc = (void *(*)(size_t))next("malloc");
    next_free = (void (*)(void *))next("free");
    got_api.first_next = (void *)next_malloc;
}
