/* ELF images as the dynamic linker mapped them: symbols and GOT slots, without dlsym. */
#ifndef OFFHEAP_ELF_IMAGE_H
#define OFFHEAP_ELF_IMAGE_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The default definition of `name` in one image (.gnu.hash or .hash), or NULL. IFUNCs are resolved. */
void *elf_symbol(const struct link_map *image, const char *name);

/* The next definition of `name` after the image that holds `after`, in link-map (search) order:
 * what dlsym(RTLD_NEXT) would find, but safe before and inside the dynamic linker's own calls. */
void *elf_next_symbol(const void *after, const char *name);

/* Calls visit(slot, symbol name, context) for every GLOB_DAT and JUMP_SLOT relocation of the image. */
typedef void elf_slot_visitor(void **slot, const char *symbol, void *context);
void elf_each_slot(const struct link_map *image, elf_slot_visitor *visit, void *context);

#endif
