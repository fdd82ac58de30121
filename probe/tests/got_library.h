/* What got_cases.c asks of the library that patches: it comes by dlopen, as the probe does. */
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
    size_t (*dump)(struct got_slot *slots, size_t max); /* every slot of every image but the loader's and ours */
    unsigned long (*mallocs)(void);                     /* that went through the hook */
    void *(*next)(const char *name);
    void *(*symbol)(const void *link_map, const char *name);
    void *first_next; /* malloc, as found by the library's constructor */
};

#endif
