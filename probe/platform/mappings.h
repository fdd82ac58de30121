/* The process's own mappings, from /proc/self/maps, without allocation. */
#ifndef OFFHEAP_MAPPINGS_H
#define OFFHEAP_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapping {
    uintptr_t start, end;
    int protection; /* PROT_READ | PROT_WRITE | PROT_EXEC */
};

/* The mapping that covers `address`.  `path` (may be NULL) gets the kernel's name of the mapped
 * file, absolute, cut to `room` bytes, "" if there is none.  Keeps errno. */
bool mapping_of(uintptr_t address, struct mapping *mapping, char *path, size_t room);

#endif
