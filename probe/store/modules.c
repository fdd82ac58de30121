#define _GNU_SOURCE
#include "store/modules.h"

#include <link.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "platform/found_image.h"
#include "store/frame_encoding.h"
#include "store/live_file.h"
#include "store/strings.h"

struct module modules[MODULES_MAX];
_Atomic uint32_t modules_generation;

/* The address of the module's dynamic section while the module is loaded, or 0. */
static _Atomic uintptr_t loaded[MODULES_MAX];
static _Atomic uint32_t module_count;
/* Row + 1 in the present recording, kept for modules that come back. */
static uint32_t rows[MODULES_MAX];
/* Only a thread that meets a new module takes this lock, for a few microseconds; readers never take it. */
static atomic_flag registering = ATOMIC_FLAG_INIT;

static bool lock(unsigned patience) {
    for (unsigned i = 0; atomic_flag_test_and_set_explicit(&registering, memory_order_acquire); i++) {
        if (i == patience) return false;
        if (i > 64) sched_yield();
    }
    return true;
}

static void unlock(void) { atomic_flag_clear_explicit(&registering, memory_order_release); }

static bool is_image(const struct module *module, const struct found_image *image) {
    return module->dynamic == image->dynamic && module->bias == image->bias;
}

static struct module *registered(const struct found_image *image) {
    uint32_t count = atomic_load_explicit(&module_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++)
        if (atomic_load_explicit(&loaded[i], memory_order_acquire) == (uintptr_t)image->dynamic &&
            is_image(&modules[i], image))
            return &modules[i];
    return NULL;
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t length) { /* FNV-1a */
    for (size_t i = 0; i < length; i++) hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

struct description {
    struct module module;
    char path[1024];
    struct build_id build_id;
};

/* The program, libc and liboffheap stay.  So does HotSpot, which cannot be unloaded and has most frames. */
static bool stays(const struct module *module, const char *path) {
    static const char jvm[] = "/libjvm.so";
    uintptr_t program = getauxval(AT_ENTRY), libc = (uintptr_t)&syscall;
    const char *name = strrchr(path, '/');
    return module->own || module->vdso || (name && strcmp(name, jvm) == 0) ||
           (program >= module->start && program < module->end) || (libc >= module->start && libc < module->end);
}

static void find_eh_frame(const struct found_image *image, struct module *module) {
    for (size_t i = 0; i < image->header_count; i++) {
        const ElfW(Phdr) *header = &image->headers[i];
        if (header->p_type != PT_GNU_EH_FRAME) continue;
        uintptr_t at = image->bias + header->p_vaddr;
        const ElfW(Phdr) *segment = image_segment(image, at, header->p_filesz);
        if (!segment) continue;
        module->eh_frame_hdr = (const uint8_t *)at;
        module->eh_frame_hdr_bytes = header->p_filesz;
        module->readable_low = (const uint8_t *)(image->bias + segment->p_vaddr);
        module->readable_high = module->readable_low + segment->p_filesz;
    }
}

/* False: the image is being unmapped. */
static bool describe(const struct found_image *image, struct description *description) {
    memset(description, 0, sizeof *description);
    struct module *module = &description->module;
    const struct build_id *id = &description->build_id;
    module->start = image->start;
    module->end = image->end;
    module->bias = image->bias;
    module->dynamic = image->dynamic;
    module->own = (uintptr_t)&module_count >= image->start && (uintptr_t)&module_count < image->end;
    module->vdso = image_is_vdso(image);
    find_eh_frame(image, module);
    if (!image_entry(image, &module->entry) || !image_build_id(image, &description->build_id) ||
        !image_path(image, description->path, sizeof description->path))
        return false;
    uint64_t hash = hash_bytes(UINT64_C(0xcbf29ce484222325), description->path, strlen(description->path));
    hash = hash_bytes(hash, &module->start, sizeof module->start);
    hash = hash_bytes(hash, &module->end, sizeof module->end);
    module->identity = hash_bytes(hash, id->bytes, id->length);
    module->stays = stays(module, description->path);
    return true;
}

static struct offheap_module *row_of(size_t index) {
    return &LIVE_ROWS(struct offheap_module, OFFHEAP_MODULES)[rows[index] - 1];
}

static void mark_unloaded(size_t index) {
    atomic_store_explicit(&loaded[index], 0, memory_order_release);
    if (rows[index] && live) {
        uint32_t tick = live_tick();
        row_of(index)->gone = tick ? tick : 1;
    }
    atomic_fetch_add_explicit(&modules_generation, 1, memory_order_release);
}

/* Gives modules[index] its row in the live file: its old row after a reload, otherwise a new one. */
static void assign_row(size_t index, const struct description *description) {
    struct module *module = &modules[index];
    if (!live) return;
    if (!rows[index]) {
        bool fits = (module->end - module->bias) >> OFFHEAP_FRAME_MODULE_SHIFT == 0; /* a frame's offset */
        int64_t row = fits ? live_reserve(OFFHEAP_MODULES, 1) : -1;
        if (row < 0) {
            live_lose(OFFHEAP_LOST_MODULES);
            return;
        }
        rows[index] = (uint32_t)row + 1;
        struct offheap_module *entry = row_of(index);
        entry->start = module->start;
        entry->bias = module->bias;
        entry->path = live_string(description->path, strlen(description->path));
        entry->born = live_tick();
        entry->build_id_bytes = description->build_id.length;
        memcpy(entry->build_id, description->build_id.bytes, sizeof entry->build_id);
        __atomic_store_n(&entry->end, module->end, __ATOMIC_RELEASE); /* last: 0 while incomplete */
    }
    row_of(index)->gone = 0;
    atomic_store_explicit(&module->frame_base, frame_native(rows[index] - 1, 0) - module->bias, memory_order_release);
}

static bool still_found(const struct module *module) {
    struct found_image image;
    return image_find(module->start, &image) == IMAGE_FOUND && is_image(module, &image);
}

/* Call with the lock held. */
static struct module *register_image(const struct found_image *image) {
    struct module *module = registered(image);
    struct description description;
    if (!describe(image, &description)) return NULL;
    /* The linker removes an image from its list before it unmaps the image: an image that is still listed here was
     * mapped during the reads. */
    if (!image->locked && !still_found(&description.module)) return NULL;
    if (module && module->identity != description.module.identity) {
        mark_unloaded(module_index(module)); /* a dlclose that no hook saw: another image is in its place */
        module = NULL;
    }
    uint32_t index = module ? (uint32_t)module_index(module) : 0;
    if (!module) {
        while (index < module_count &&
               !(is_image(&modules[index], image) && modules[index].identity == description.module.identity))
            index++;
        if (index == MODULE_NOWHERE) {
            if (live) live_lose(OFFHEAP_LOST_MODULES);
            return NULL;
        }
        if (index == module_count) {
            modules[index] = description.module;
            atomic_store_explicit(&module_count, index + 1, memory_order_release);
        }
    }
    if (!module || !modules[index].frame_base) assign_row(index, &description);
    atomic_store_explicit(&loaded[index], (uintptr_t)image->dynamic, memory_order_release);
    return &modules[index];
}

enum module_search module_search(uintptr_t pc, const struct module **module) {
    struct found_image image;
    enum image_search search = image_find(pc, &image);
    if (search != IMAGE_FOUND) return search == IMAGE_NONE ? MODULE_NONE : MODULE_UNKNOWN;
    *module = registered(&image);
    if (*module && (*module)->frame_base) return MODULE_FOUND;
    /* The wait is bounded, because a signal handler may have interrupted the registration itself. */
    if (!lock(2000)) return MODULE_UNKNOWN;
    ElfW(Phdr) headers[IMAGE_HEADERS_MAX];
    *module = image_complete(&image, headers) ? register_image(&image) : NULL;
    unlock();
    return *module ? MODULE_FOUND : MODULE_UNKNOWN;
}

const struct module *module_of(uintptr_t pc) {
    struct found_image image;
    return image_find(pc, &image) == IMAGE_FOUND ? registered(&image) : NULL;
}

/* Modules that the running refresh() has met; guarded by the lock. */
static bool met[MODULES_MAX];

static int meet(struct dl_phdr_info *info, size_t bytes, void *context) {
    (void)bytes, (void)context;
    struct found_image image;
    image_of_headers(info, &image);
    if (!image.start || !image.dynamic) return 0;
    const struct module *module = register_image(&image);
    if (module) met[module_index(module)] = true;
    return 0;
}

/* Call from inside a visit, which holds the list's lock.  dlclose unmaps images under that lock; without it this would
 * read an image that another thread unmaps. */
static int mark_closed_unloaded(struct dl_phdr_info *first, size_t bytes, void *context) {
    (void)first, (void)bytes, (void)context;
    for (size_t i = 0; i < module_count; i++)
        /* dl_iterate_phdr does not list modules of another namespace (dlmopen, LD_AUDIT). */
        if (loaded[i] && !met[i] && !(image_find_knows_namespaces() && still_found(&modules[i]))) mark_unloaded(i);
    return 1;
}

static void refresh(void) {
    if (!lock(100000)) return;
    memset(met, 0, sizeof met);
    uint32_t before = module_count;
    dl_iterate_phdr(meet, NULL);
    dl_iterate_phdr(mark_closed_unloaded, NULL);
    /* A pc that was in no module may now be in a new one. */
    if (module_count != before) atomic_fetch_add_explicit(&modules_generation, 1, memory_order_release);
    unlock();
}

void modules_start(void) {
    if (!lock(100000)) return;
    memset(rows, 0, sizeof rows);
    for (size_t i = 0; i < module_count; i++) atomic_store_explicit(&modules[i].frame_base, 0, memory_order_release);
    atomic_fetch_add_explicit(&modules_generation, 1, memory_order_release);
    unlock();
}

void modules_register_all(void) { refresh(); }
void modules_forget_closed(void) { refresh(); }
