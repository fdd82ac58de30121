/* The image (program or library) that covers an address, as the dynamic linker describes it, without allocation.
 *
 * Unless the linker's list is locked, another thread may unmap an image at any time, with its name and headers, so the
 * kernel copies what the probe reads.  A function that returns false met an image that is being unmapped. */
#ifndef OFFHEAP_FOUND_IMAGE_H
#define OFFHEAP_FOUND_IMAGE_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct found_image {
    uintptr_t start, end; /* mapped */
    uintptr_t bias;
    const void *dynamic; /* the dynamic section, which identifies the image, together with the bias */
    const char *name;    /* the linker's, in the process's own memory */
    const ElfW(Phdr) * headers;
    size_t header_count;
    bool locked; /* the linker's list is: nobody unmaps the image */
};

struct build_id {
    uint8_t bytes[32];
    uint8_t length; /* 0: the image has none */
};

enum image_search {
    IMAGE_FOUND,
    IMAGE_NONE,
    IMAGE_UNKNOWN, /* an image is being unmapped there */
};

/* Without headers, where _dl_find_object answers (glibc >= 2.35, signal-safe).  Older versions need dl_iterate_phdr,
 * which takes the loader's recursive lock. */
enum image_search image_find(uintptr_t pc, struct found_image *image);
/* Whether image_find() also knows images of other namespaces (dlmopen, LD_AUDIT), which dl_iterate_phdr does not. */
bool image_find_knows_namespaces(void);

/* Describes the image of a visit by dl_iterate_phdr, which holds the list's lock. */
void image_of_headers(const struct dl_phdr_info *info, struct found_image *image);

enum { IMAGE_HEADERS_MAX = 24 }; /* libraries have 7 to 12 */
/* Copies the program headers to `headers`, to which the image then refers, and finds the image's addresses by them. */
bool image_complete(struct found_image *image, ElfW(Phdr) headers[IMAGE_HEADERS_MAX]);

/* The functions below need headers. */

/* The segment that holds [at, at + length), if it is loaded and readable, or NULL. */
const ElfW(Phdr) * image_segment(const struct found_image *image, uintptr_t at, size_t length);
/* The linker's name, cut off at `room`; the kernel's if the linker's is empty, as for the program, or relative, as
 * dlopen's argument may be: the kernel's is absolute, also after a change of the working directory. */
bool image_path(const struct found_image *image, char *path, size_t room);
bool image_is_vdso(const struct found_image *image);
/* The entry point of a program or of the dynamic linker, 0 for others. */
bool image_entry(const struct found_image *image, uintptr_t *entry);
bool image_build_id(const struct found_image *image, struct build_id *found);

#endif
