/* What got_cases.c asks of the library that patches.  A dlopen loads this library, as it loads the probe. */
#ifndef GOT_LIBRARY_H
#define GOT_LIBRARY_H

#include <stddef.h>

struct got_slot {
    void **slot;
    void *value;
    int protection;
};

struct got_api {
    long (*patch)(void);
    long (*follow)(void);
    long (*restore)(void);
    size_t (*dump)(struct got_slot *slots, size_t max); /* every slot of every image but the loader and the library */
    unsigned long (*mallocs)(void);                     /* calls of the hook of malloc */
    void *(*next)(const char *name);
    void *(*symbol)(const void *link_map, const char *name);
    void *first_next; /* the malloc that the library's constructor finds */
};

#endif
