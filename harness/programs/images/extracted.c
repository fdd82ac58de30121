// A JNI library that allocates in a function between two exported ones, which a stripped copy has no name for.
#include <stdlib.h>

#define NAMED __attribute__((noinline, disable_tail_calls))
#define EXPORTED __attribute__((visibility("default"))) NAMED

static void *volatile last;

EXPORTED long before(long bytes) {
    return bytes + 1;
}

NAMED static long hold(long bytes) {
    last = malloc((size_t)bytes);
    return bytes;
}

EXPORTED long Java_Extracted_keep(void *environment, void *class, long bytes) {
    (void)environment, (void)class;
    return hold(bytes) + before(0);
}

EXPORTED long after(long bytes) {
    return bytes + 2;
}
