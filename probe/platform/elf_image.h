/* ELF images as the dynamic linker mapped them: symbols and GOT slots, without dlsym. */
#ifndef OFFHEAP_ELF_IMAGE_H
#define OFFHEAP_ELF_IMAGE_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The default definition of `name` in one image (.gnu.hash or .hash; hidden versions are skipped), or NULL.  IFUNCs are
 * resolved.  Only l_addr and l_ld of `image` are read. */
void *elf_symbol(const struct link_map *image, const char *name);

/* The definition of `name` that a call reaches without the probe, in link-map (search) order:
 * after the image that holds `after` (as dlsym(RTLD_NEXT)) if that image is one of start-up;
 * from the head, without that image, if a dlopen loaded it, since it is then behind every
 * image it could interpose.  Allocates nothing, takes only the loader's recursive list
 * lock: safe in a constructor, and in the process's first malloc. */
void *elf_next_symbol(const void *after, const char *name);

enum elf_slot_kind {
    ELF_SLOT_CALL,    /* JUMP_SLOT, GLOB_DAT: a GOT entry */
    ELF_SLOT_POINTER, /* an absolute relocation: the symbol's address in a table of pointers */
};

/* Calls visit(slot, symbol name, ...) for every JUMP_SLOT, GLOB_DAT and absolute relocation that names a symbol
 * (absolute ones only without an addend).  `defined`: the image itself defines the symbol. */
typedef void elf_slot_visitor(void **slot, const char *symbol, enum elf_slot_kind kind, bool defined, void *context);
void elf_each_slot(const struct link_map *image, elf_slot_visitor *visit, void *context);

/* One image during elf_each_image(). */
struct elf_image {
    struct link_map map; /* l_addr, l_name and l_ld only */
    const ElfW(Phdr) * headers;
    size_t header_count;
    uintptr_t start, end; /* mapped */
    bool loader, vdso;
};
/* Calls visit for every image, in link-map order, under the loader's list lock, until a visit returns true.  Returns
 * whether one did. */
typedef bool elf_image_visitor(const struct elf_image *image, void *context);
bool elf_each_image(elf_image_visitor *visit, void *context);

/* Is [address, address + length) inside one loaded segment of the image? */
bool elf_covers(const struct elf_image *image, uintptr_t address, size_t length);

#endif
