/* A library that adversarial.c loads and unloads in a loop. */
#include <stddef.h>
#include <stdlib.h>

void *plugin_malloc(size_t size);

__attribute__((noinline)) void *plugin_malloc(size_t size) {
    void *volatile block = malloc(size);
    return block;
}
