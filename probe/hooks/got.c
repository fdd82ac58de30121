/*
 * When is a module's GOT safe to write?
 *
 * Another thread's dlopen maps an image, links it into the loader's list (from then on dl_iterate_phdr shows it),
 * relocates it, protects its RELRO pages, runs its constructors.  If the probe writes a slot before the relocation, the
 * loader overwrites the slot, or saves the hook as the lazy stub; unprotecting RELRO in the middle is worse.  The
 * loader holds its load lock during all of that, but dl_iterate_phdr only takes the list lock.  So:
 *   1. list the images (under the list lock);
 *   2. dlopen(NULL), dlclose: this takes and releases the load lock, so every dlopen that was in progress at 1 has
 *      ended and its images are relocated;
 *   3. patch the images of 1 that are still loaded, again under the list lock, which dlclose needs before it unmaps
 *      anything.
 * The next call (by the hook of that dlopen) patches an image that a dlopen maps after 1.  Step 2 holds no lock of the
 * probe, since a constructor that calls dlopen, and so comes here, holds the load lock.  The list lock guards the table
 * below, too.
 *
 * Which slots?  Only slots that hold the function that the hook chains to, or the module's own lazy stub, which would
 * resolve to that function.  A slot that is bound elsewhere (a library with its own allocator, another tool's hook)
 * must stay: a hook in it would mix two heaps.  Absolute relocations (tables of function pointers, as libxml2's
 * xmlMalloc) count as well.
 */
#define _GNU_SOURCE
#include "hooks/got.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/elf_image.h"
#include "platform/mappings.h"
#include "platform/system.h"

enum { SLOTS_MAX = 32768, IMAGES_MAX = 4096, HOOKS_MAX = 64 };

/* Slots that hold a hook, with their former values.  The loader's list lock guards the table. */
static struct patched {
    void **slot;
    void *old, *hook;
} patched[SLOTS_MAX];
static size_t patched_count;

/* NULL: nothing is patched.  Changes under the list lock, or before got_patch lists anything. */
static _Atomic(const struct got_hook *) wanted;

struct identity {
    uintptr_t bias;
    const void *dynamic;
    const char *name;
};

struct pass {
    const struct got_hook *hooks;
    void *chained[HOOKS_MAX]; /* what each hook stands in for */
    struct identity *images;  /* listed in step 1 */
    size_t image_count;
    const struct elf_image *image; /* the image that is patched now */
    struct mapping mapping;        /* of the slot written last */
    long restored;
};

static struct identity identity_of(const struct elf_image *image) {
    return (struct identity){image->map.l_addr, image->map.l_ld, image->map.l_name};
}

static bool is_ours(const struct elf_image *image) {
    return (uintptr_t)patched >= image->start && (uintptr_t)patched < image->end;
}

static bool list_image(const struct elf_image *image, void *context) {
    struct pass *pass = context;
    if (image->loader || image->vdso || is_ours(image)) return false;
    if (pass->image_count == IMAGES_MAX) return true;
    pass->images[pass->image_count++] = identity_of(image);
    return false;
}

static bool is_listed(const struct pass *pass, const struct elf_image *image) {
    struct identity one = identity_of(image);
    for (size_t i = 0; i < pass->image_count; i++)
        if (pass->images[i].bias == one.bias && pass->images[i].dynamic == one.dynamic &&
            pass->images[i].name == one.name)
            return true;
    return false;
}

/* Raw system calls, because mprotect and mmap may be hooked, by the probe or by others. */
static bool protect(uintptr_t page, size_t length, int protection) {
    return syscall(SYS_mprotect, page, length, protection) == 0;
}

/* Writes a slot; a RELRO page is writable only during the write.  The page's protection comes from the kernel, not from
 * RELRO: another tool may keep the page writable. */
static bool write_slot(struct pass *pass, void **slot, void *value) {
    uintptr_t address = (uintptr_t)slot, size = (uintptr_t)sysconf(_SC_PAGESIZE), page = address & -size;
    if (address < pass->mapping.start || address >= pass->mapping.end) {
        if (!mapping_of(address, &pass->mapping, NULL, 0)) return false;
    }
    int protection = pass->mapping.protection;
    if (!(protection & PROT_READ)) return false;
    bool closed = !(protection & PROT_WRITE);
    if (closed && !protect(page, size, protection | PROT_WRITE)) return false;
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    if (closed) protect(page, size, protection);
    return true;
}

static struct patched *find_patched(void **slot) {
    for (size_t i = 0; i < patched_count; i++)
        if (patched[i].slot == slot) return &patched[i];
    return NULL;
}

static void patch_slot(void **slot, const char *symbol, enum elf_slot_kind kind, bool defined, void *context) {
    struct pass *pass = context;
    size_t i = 0;
    while (pass->hooks[i].symbol && strcmp(pass->hooks[i].symbol, symbol) != 0) i++;
    void *hook = pass->hooks[i].symbol ? pass->hooks[i].hook : NULL, *chained = hook ? pass->chained[i] : NULL;
    if (!chained || (uintptr_t)slot % sizeof *slot || !elf_covers(pass->image, (uintptr_t)slot, sizeof *slot)) return;

    void *old = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    bool lazy =
        kind == ELF_SLOT_CALL && !defined && (uintptr_t)old >= pass->image->start && (uintptr_t)old < pass->image->end;
    if (old == hook || !(old == chained || lazy)) return;
    struct patched *entry = find_patched(slot); /* patched before: lazily bound since then, or of a reloaded module */
    if (!entry && patched_count == SLOTS_MAX) return;
    if (!write_slot(pass, slot, hook)) return;
    if (!entry) entry = &patched[patched_count++];
    *entry = (struct patched){slot, old, hook};
}

static bool patch_image(const struct elf_image *image, void *context) {
    struct pass *pass = context;
    if (!is_listed(pass, image)) return false;
    pass->image = image;
    elf_each_slot(&image->map, patch_slot, pass);
    return false;
}

static bool holds_hook(const struct elf_image *image, const struct patched *entry) {
    return elf_covers(image, (uintptr_t)entry->slot, sizeof *entry->slot) &&
           __atomic_load_n(entry->slot, __ATOMIC_ACQUIRE) == entry->hook;
}

static bool keep_slots(const struct elf_image *image, void *context) {
    size_t *kept = context;
    for (size_t i = *kept; i < patched_count; i++) {
        if (!holds_hook(image, &patched[i])) continue;
        struct patched entry = patched[i];
        patched[i] = patched[*kept];
        patched[(*kept)++] = entry;
    }
    return false;
}

static bool restore_slots(const struct elf_image *image, void *context) {
    struct pass *pass = context;
    for (size_t i = 0; i < patched_count; i++)
        if (holds_hook(image, &patched[i])) pass->restored += write_slot(pass, patched[i].slot, patched[i].old);
    return false;
}

/* patch_all and restore_all walk the images from inside the first visit of an outer walk, and then stop the outer walk:
 * the list lock is recursive, so both hold it from their first line to their last. */
static bool patch_all(const struct elf_image *first, void *context) {
    (void)first;
    struct pass *pass = context;
    size_t kept = 0;
    /* A thread may come here from its dlopen while another thread detaches: nobody would restore the slots that it
     * patches. */
    if (pass->hooks != atomic_load(&wanted)) return true;
    elf_each_image(keep_slots, &kept);
    patched_count = kept; /* other slots belong to unloaded modules, or are bound anew */
    elf_each_image(patch_image, pass);
    return true;
}

static bool restore_all(const struct elf_image *first, void *context) {
    (void)first;
    atomic_store(&wanted, NULL);
    elf_each_image(restore_slots, context);
    patched_count = 0;
    return true;
}

/* Step 2.  Calls the loader's own functions, never the hooks of the same name. */
static bool await_relocations(void) {
    void *(*open)(const char *, int) = (void *(*)(const char *, int))elf_next_symbol(patched, "dlopen");
    int (*close)(void *) = (int (*)(void *))elf_next_symbol(patched, "dlclose");
    void *program = open && close ? open(NULL, RTLD_LAZY) : NULL;
    return program && close(program) == 0;
}

static long patch(const struct got_hook *hooks) {
    struct pass pass = {.hooks = hooks};
    for (size_t i = 0; hooks[i].symbol; i++) {
        if (i == HOOKS_MAX) return -1;
        pass.chained[i] = elf_next_symbol(patched, hooks[i].symbol);
    }
    size_t bytes = IMAGES_MAX * sizeof *pass.images;
    pass.images = system_pages(bytes);
    if (!pass.images) return -1;
    elf_each_image(list_image, &pass);
    bool settled = await_relocations();
    if (settled) elf_each_image(patch_all, &pass);
    system_munmap(pass.images, bytes);
    return settled ? (long)patched_count : -1;
}

long got_patch(const struct got_hook *hooks) {
    atomic_store(&wanted, hooks);
    return patch(hooks);
}

long got_follow(void) {
    const struct got_hook *hooks = atomic_load(&wanted);
    return hooks ? patch(hooks) : 0;
}

long got_restore(void) {
    struct pass pass = {.restored = 0};
    elf_each_image(restore_all, &pass);
    return pass.restored;
}
