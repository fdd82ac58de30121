#define _GNU_SOURCE
#include "store/modules.h"

#include <elf.h>
#include <link.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>

#include "platform/mappings.h"
#include "platform/system.h"
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

/* Declared here under another name, because the oldest glibc of the build lacks it.  The fields that the probe reads
 * are the same on all machines (dlfcn.h of glibc 2.35); the rest is room. */
struct found_object {
    unsigned long long flags;
    void *map_start, *map_end;
    struct link_map *link_map;
    void *rest[12];
};
extern int find_object(void *address, struct found_object *result) __asm__("_dl_find_object") __attribute__((weak));

/* An image as the dynamic linker describes it.  Unless the linker's list is locked, another thread may unmap the
 * image at any time, with its name and headers, so the kernel copies what the probe reads. */
struct image {
    uintptr_t start, end, bias;
    const void *dynamic;
    const char *name;
    const ElfW(Phdr) * headers;
    size_t header_count;
    bool locked;
};

static bool read_image(const struct image *image, const void *from, void *to, size_t length) {
    if (!image->locked) return system_read((uintptr_t)from, to, length);
    memcpy(to, from, length);
    return true;
}

static bool lock(unsigned patience) {
    for (unsigned i = 0; atomic_flag_test_and_set_explicit(&registering, memory_order_acquire); i++) {
        if (i == patience) return false;
        if (i > 64) sched_yield();
    }
    return true;
}

static void unlock(void) { atomic_flag_clear_explicit(&registering, memory_order_release); }

/* Finds the image's addresses from its headers. */
static void place(struct image *image) {
    uintptr_t page = getauxval(AT_PAGESZ), low = UINTPTR_MAX, high = 0;
    image->start = image->end = 0;
    for (size_t i = 0; i < image->header_count; i++) {
        const ElfW(Phdr) *header = &image->headers[i];
        if (header->p_type == PT_LOAD) {
            if (header->p_vaddr < low) low = header->p_vaddr;
            if (header->p_vaddr + header->p_memsz > high) high = header->p_vaddr + header->p_memsz;
        } else if (header->p_type == PT_DYNAMIC) {
            image->dynamic = (const void *)(image->bias + header->p_vaddr);
        }
    }
    if (low < high) {
        image->start = image->bias + (low & -page);
        image->end = image->bias + high;
    }
}

/* For a visit by dl_iterate_phdr, which holds the list's lock. */
static void image_of_headers(const struct dl_phdr_info *info, struct image *image) {
    *image = (struct image){.bias = info->dlpi_addr,
                            .name = info->dlpi_name,
                            .headers = info->dlpi_phdr,
                            .header_count = info->dlpi_phnum,
                            .locked = true};
    place(image);
}

/* Without headers.  [start, end) is the linker's extent of the object, which is only one segment if the kernel leaves
 * holes between a program's segments. */
static bool image_of_object(const struct found_object *object, struct image *image) {
    struct link_map map; /* the public fields, which come first */
    if (!system_read((uintptr_t)object->link_map, &map, offsetof(struct link_map, l_next))) return false;
    *image = (struct image){.start = (uintptr_t)object->map_start,
                            .end = (uintptr_t)object->map_end,
                            .bias = map.l_addr,
                            .dynamic = map.l_ld,
                            .name = map.l_name};
    return true;
}

/* Finds the program headers by the ELF header, which usually starts the first segment. */
static void find_headers(struct image *image) {
    ElfW(Ehdr) elf;
    size_t bytes = image->end - image->start;
    if (bytes >= sizeof elf && system_read(image->start, &elf, sizeof elf) &&
        memcmp(elf.e_ident, ELFMAG, SELFMAG) == 0 && elf.e_phentsize == sizeof(ElfW(Phdr)) && elf.e_phoff < bytes &&
        elf.e_phnum <= (bytes - elf.e_phoff) / sizeof(ElfW(Phdr))) {
        image->headers = (const ElfW(Phdr) *)(image->start + elf.e_phoff);
        image->header_count = elf.e_phnum;
    }
}

struct search {
    uintptr_t pc;
    struct image image;
    bool found;
};

static int match_image(struct dl_phdr_info *info, size_t bytes, void *context) {
    (void)bytes;
    struct search *search = context;
    image_of_headers(info, &search->image);
    search->found = search->pc >= search->image.start && search->pc < search->image.end;
    return search->found;
}

static enum module_search find_image(uintptr_t pc, struct image *image) {
    if (find_object) {
        struct found_object object;
        if (find_object((void *)pc, &object) != 0) return MODULE_NONE;
        return image_of_object(&object, image) ? MODULE_FOUND : MODULE_UNKNOWN;
    }
    struct search search = {.pc = pc};
    dl_iterate_phdr(match_image, &search);
    *image = search.image;
    image->locked = false;
    return search.found ? MODULE_FOUND : MODULE_NONE;
}

static int match_dynamic(struct dl_phdr_info *info, size_t bytes, void *context) {
    (void)bytes;
    struct image *wanted = context, image;
    image_of_headers(info, &image);
    if (image.dynamic != wanted->dynamic) return 0;
    *wanted = image;
    return 1;
}

enum { HEADERS_MAX = 24 }; /* libraries have 7 to 12 */

/* `headers`: room for a copy. */
static bool complete(struct image *image, ElfW(Phdr) headers[HEADERS_MAX]) {
    if (!image->headers) find_headers(image);
    if (!image->headers) {
        dl_iterate_phdr(match_dynamic, image);
        image->locked = false;
    }
    if (!image->headers || image->header_count > HEADERS_MAX ||
        !system_read((uintptr_t)image->headers, headers, image->header_count * sizeof *headers))
        return false;
    image->headers = headers;
    place(image);
    return image->start;
}

static bool is_image(const struct module *module, const struct image *image) {
    return module->dynamic == image->dynamic && module->bias == image->bias;
}

static struct module *registered(const struct image *image) {
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
    uint8_t build_id[32];
    uint8_t build_id_bytes;
};

static void find_build_id(const uint8_t *notes, size_t length, struct description *description) {
    while (length >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)notes;
        size_t name = (note->n_namesz + 3u) & ~(size_t)3, content = (note->n_descsz + 3u) & ~(size_t)3;
        if (name > length || content > length || sizeof *note + name + content > length) return;
        const uint8_t *id = notes + sizeof *note + name;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(note + 1, "GNU", 4) == 0 &&
            note->n_descsz <= sizeof description->build_id) {
            memcpy(description->build_id, id, note->n_descsz);
            description->build_id_bytes = (uint8_t)note->n_descsz;
            return;
        }
        notes += sizeof *note + name + content;
        length -= sizeof *note + name + content;
    }
}

/* The segment that holds [at, at + length), if it is loaded and readable. */
static const ElfW(Phdr) * segment_of(const struct image *image, uintptr_t at, size_t length) {
    for (size_t i = 0; i < image->header_count; i++) {
        const ElfW(Phdr) *header = &image->headers[i];
        uintptr_t start = image->bias + header->p_vaddr;
        if (header->p_type == PT_LOAD && (header->p_flags & PF_R) && at >= start && length <= header->p_filesz &&
            at - start <= header->p_filesz - length)
            return header;
    }
    return NULL;
}

/* The copy is cut off at `room`. */
static bool read_name(const struct image *image, char *name, size_t room) {
    size_t length = 0;
    while (length < room) {
        /* Aligned, so that no byte behind the last page of the name is read. */
        size_t part = 64 - (uintptr_t)(image->name + length) % 64;
        if (part > room - length) part = room - length;
        if (!read_image(image, image->name + length, name + length, part)) return false;
        if (memchr(name + length, 0, part)) return true;
        length += part;
    }
    name[room - 1] = 0;
    return true;
}

/* The loader's name is empty for the program, and relative if dlopen's argument is.  The kernel's name is absolute,
 * also after a change of the working directory. */
static bool find_path(const struct image *image, struct description *description) {
    struct mapping mapping;
    char *path = description->path;
    size_t room = sizeof description->path;
    if (!read_name(image, path, room)) return false;
    if (path[0] == '/') return true;
    path[0] = 0;
    if (description->module.vdso) strcpy(path, "[vdso]");
    else if (!mapping_of(image->start, &mapping, path, room)) path[0] = 0;
    return true;
}

/* The program, libc and liboffheap stay.  So does HotSpot, which cannot be unloaded and has most frames. */
static bool stays(const struct module *module, const char *path) {
    static const char jvm[] = "/libjvm.so";
    uintptr_t program = getauxval(AT_ENTRY), libc = (uintptr_t)&syscall;
    const char *name = strrchr(path, '/');
    return module->own || module->vdso || (name && strcmp(name, jvm) == 0) ||
           (program >= module->start && program < module->end) || (libc >= module->start && libc < module->end);
}

/* False: the image is being unmapped. */
static bool describe(const struct image *image, struct description *description) {
    memset(description, 0, sizeof *description);
    struct module *module = &description->module;
    module->start = image->start;
    module->end = image->end;
    module->bias = image->bias;
    module->dynamic = image->dynamic;
    module->own = (uintptr_t)&module_count >= image->start && (uintptr_t)&module_count < image->end;
    module->vdso = image->start == getauxval(AT_SYSINFO_EHDR);
    ElfW(Ehdr) elf;
    if (segment_of(image, image->start, sizeof elf)) {
        if (!read_image(image, (const void *)image->start, &elf, sizeof elf)) return false;
        if (memcmp(elf.e_ident, ELFMAG, SELFMAG) == 0 && elf.e_entry) module->entry = image->bias + elf.e_entry;
    }
    for (size_t i = 0; i < image->header_count; i++) {
        const ElfW(Phdr) *header = &image->headers[i];
        uintptr_t at = image->bias + header->p_vaddr;
        const ElfW(Phdr) *segment = segment_of(image, at, header->p_filesz);
        if (!segment) continue;
        if (header->p_type == PT_GNU_EH_FRAME) {
            module->eh_frame_hdr = (const uint8_t *)at;
            module->eh_frame_hdr_bytes = header->p_filesz;
            module->readable_low = (const uint8_t *)(image->bias + segment->p_vaddr);
            module->readable_high = module->readable_low + segment->p_filesz;
        } else if (header->p_type == PT_NOTE && !description->build_id_bytes) {
            _Alignas(ElfW(Nhdr)) uint8_t notes[512]; /* the build-id is among the first notes */
            size_t length = header->p_filesz < sizeof notes ? header->p_filesz : sizeof notes;
            if (!read_image(image, (const void *)at, notes, length)) return false;
            find_build_id(notes, length, description);
        }
    }
    if (!find_path(image, description)) return false;
    uint64_t hash = hash_bytes(UINT64_C(0xcbf29ce484222325), description->path, strlen(description->path));
    hash = hash_bytes(hash, &module->start, sizeof module->start);
    hash = hash_bytes(hash, &module->end, sizeof module->end);
    module->identity = hash_bytes(hash, description->build_id, description->build_id_bytes);
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
        entry->build_id_bytes = description->build_id_bytes;
        memcpy(entry->build_id, description->build_id, sizeof entry->build_id);
        __atomic_store_n(&entry->end, module->end, __ATOMIC_RELEASE); /* last: 0 while incomplete */
    }
    row_of(index)->gone = 0;
    atomic_store_explicit(&module->frame_base, frame_native(rows[index] - 1, 0) - module->bias, memory_order_release);
}

static bool still_found(const struct module *module) {
    struct image image;
    return find_image(module->start, &image) == MODULE_FOUND && is_image(module, &image);
}

/* Call with the lock held. */
static struct module *register_image(const struct image *image) {
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
    struct image image;
    enum module_search search = find_image(pc, &image);
    if (search != MODULE_FOUND) return search;
    *module = registered(&image);
    if (*module && (*module)->frame_base) return MODULE_FOUND;
    /* The wait is bounded, because a signal handler may have interrupted the registration itself. */
    if (!lock(2000)) return MODULE_UNKNOWN;
    ElfW(Phdr) headers[HEADERS_MAX];
    *module = complete(&image, headers) ? register_image(&image) : NULL;
    unlock();
    return *module ? MODULE_FOUND : MODULE_UNKNOWN;
}

const struct module *module_of(uintptr_t pc) {
    struct image image;
    return find_image(pc, &image) == MODULE_FOUND ? registered(&image) : NULL;
}

/* Modules that the running refresh() has met; guarded by the lock. */
static bool met[MODULES_MAX];

static int meet(struct dl_phdr_info *info, size_t bytes, void *context) {
    (void)bytes, (void)context;
    struct image image;
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
        if (loaded[i] && !met[i] && !(find_object && still_found(&modules[i]))) mark_unloaded(i);
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
