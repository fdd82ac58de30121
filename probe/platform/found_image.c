#define _GNU_SOURCE
#include "platform/found_image.h"

#include <elf.h>
#include <string.h>
#include <sys/auxv.h>

#include "platform/mappings.h"
#include "platform/system.h"

/* Declared here under another name, because the oldest glibc of the build lacks it.  The fields that the probe reads
 * are the same on all machines (dlfcn.h of glibc 2.35); the rest is room. */
struct found_object {
    unsigned long long flags;
    void *map_start, *map_end;
    struct link_map *link_map;
    void *rest[12];
};
extern int find_object(void *address, struct found_object *result) __asm__("_dl_find_object") __attribute__((weak));

/* Finds the image's addresses from its headers. */
static void place(struct found_image *image) {
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
void image_of_headers(const struct dl_phdr_info *info, struct found_image *image) {
    *image = (struct found_image){.bias = info->dlpi_addr,
                                  .name = info->dlpi_name,
                                  .headers = info->dlpi_phdr,
                                  .header_count = info->dlpi_phnum,
                                  .locked = true};
    place(image);
}

/* Without headers.  [start, end) is the linker's extent of the object, which is only one segment if the kernel leaves
 * holes between a program's segments. */
static bool image_of_object(const struct found_object *object, struct found_image *image) {
    struct link_map map; /* the public fields, which come first */
    if (!system_read((uintptr_t)object->link_map, &map, offsetof(struct link_map, l_next))) return false;
    *image = (struct found_image){.start = (uintptr_t)object->map_start,
                                  .end = (uintptr_t)object->map_end,
                                  .bias = map.l_addr,
                                  .dynamic = map.l_ld,
                                  .name = map.l_name};
    return true;
}

/* Finds the program headers by the ELF header, which usually starts the first segment. */
static void find_headers(struct found_image *image) {
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
    struct found_image image;
    bool found;
};

static int match_image(struct dl_phdr_info *info, size_t bytes, void *context) {
    (void)bytes;
    struct search *search = context;
    image_of_headers(info, &search->image);
    search->found = search->pc >= search->image.start && search->pc < search->image.end;
    return search->found;
}

bool image_find_knows_namespaces(void) { return find_object; }

enum image_search image_find(uintptr_t pc, struct found_image *image) {
    if (find_object) {
        struct found_object object;
        if (find_object((void *)pc, &object) != 0) return IMAGE_NONE;
        return image_of_object(&object, image) ? IMAGE_FOUND : IMAGE_UNKNOWN;
    }
    struct search search = {.pc = pc};
    dl_iterate_phdr(match_image, &search);
    *image = search.image;
    image->locked = false;
    return search.found ? IMAGE_FOUND : IMAGE_NONE;
}

static int match_dynamic(struct dl_phdr_info *info, size_t bytes, void *context) {
    (void)bytes;
    struct found_image *wanted = context, image;
    image_of_headers(info, &image);
    if (image.dynamic != wanted->dynamic) return 0;
    *wanted = image;
    return 1;
}

bool image_complete(struct found_image *image, ElfW(Phdr) headers[IMAGE_HEADERS_MAX]) {
    if (!image->headers) find_headers(image);
    if (!image->headers) {
        dl_iterate_phdr(match_dynamic, image);
        image->locked = false;
    }
    if (!image->headers || image->header_count > IMAGE_HEADERS_MAX ||
        !system_read((uintptr_t)image->headers, headers, image->header_count * sizeof *headers))
        return false;
    image->headers = headers;
    place(image);
    return image->start;
}

static bool read_image(const struct found_image *image, const void *from, void *to, size_t length) {
    if (!image->locked) return system_read((uintptr_t)from, to, length);
    memcpy(to, from, length);
    return true;
}

const ElfW(Phdr) * image_segment(const struct found_image *image, uintptr_t at, size_t length) {
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
static bool read_name(const struct found_image *image, char *name, size_t room) {
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

bool image_path(const struct found_image *image, char *path, size_t room) {
    struct mapping mapping;
    if (!read_name(image, path, room)) return false;
    if (path[0] == '/') return true;
    path[0] = 0;
    if (image_is_vdso(image)) strcpy(path, "[vdso]");
    else if (!mapping_of(image->start, &mapping, path, room)) path[0] = 0;
    return true;
}

bool image_is_vdso(const struct found_image *image) { return image->start == getauxval(AT_SYSINFO_EHDR); }

bool image_entry(const struct found_image *image, uintptr_t *entry) {
    ElfW(Ehdr) elf;
    *entry = 0;
    if (!image_segment(image, image->start, sizeof elf)) return true;
    if (!read_image(image, (const void *)image->start, &elf, sizeof elf)) return false;
    if (memcmp(elf.e_ident, ELFMAG, SELFMAG) == 0 && elf.e_entry) *entry = image->bias + elf.e_entry;
    return true;
}

static bool find_build_id(const uint8_t *notes, size_t length, struct build_id *found) {
    while (length >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)notes;
        size_t name = (note->n_namesz + 3u) & ~(size_t)3, content = (note->n_descsz + 3u) & ~(size_t)3;
        if (name > length || content > length || sizeof *note + name + content > length) return false;
        const uint8_t *id = notes + sizeof *note + name;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(note + 1, "GNU", 4) == 0 &&
            note->n_descsz <= sizeof found->bytes) {
            memcpy(found->bytes, id, note->n_descsz);
            found->length = (uint8_t)note->n_descsz;
            return true;
        }
        notes += sizeof *note + name + content;
        length -= sizeof *note + name + content;
    }
    return false;
}

bool image_build_id(const struct found_image *image, struct build_id *found) {
    *found = (struct build_id){0};
    for (size_t i = 0; i < image->header_count; i++) {
        const ElfW(Phdr) *header = &image->headers[i];
        uintptr_t at = image->bias + header->p_vaddr;
        if (header->p_type != PT_NOTE || !image_segment(image, at, header->p_filesz)) continue;
        _Alignas(ElfW(Nhdr)) uint8_t notes[512]; /* the build-id is among the first notes */
        size_t length = header->p_filesz < sizeof notes ? header->p_filesz : sizeof notes;
        if (!read_image(image, (const void *)at, notes, length)) return false;
        if (find_build_id(notes, length, found)) return true;
    }
    return true;
}
