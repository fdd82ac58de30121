/* A module with every kind of slot.  The test links each copy differently (lazily, -z now, with RELRO or without). */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *plugin_calls(size_t size);
void *plugin_by_pointer(size_t size);
void *plugin_by_table(size_t size);
char *plugin_strdup(const char *text);
void plugin_frees(void *block);

void *plugin_calls(size_t size) {
    void *volatile block = malloc(size);
    return block;
}

void *plugin_by_pointer(size_t size) {
    void *(*volatile function)(size_t) = malloc;
    return function(size);
}

/* Protected: otherwise every copy uses the table of the first. */
__attribute__((visibility("protected"))) void *(*plugin_table[])(size_t) = {malloc};

void *plugin_by_table(size_t size) { return plugin_table[0](size); }

char *plugin_strdup(const char *text) {
    char *volatile copy = strdup(text);
    return copy;
}

void plugin_frees(void *block) {
    free(block);
    __asm__ volatile("");
}

#ifdef OWN_ALLOCATOR
static char arena[4096];
static size_t used;

void *malloc(size_t size) {
    used += (size + 15) & ~(size_t)15;
    return used < sizeof arena ? arena + used : NULL;
}
void free(void *block) { (void)block; }
#endif

#ifdef SLOW_CONSTRUCTOR
extern volatile int plugin_constructed __attribute__((weak));

__attribute__((constructor)) static void construct(void) {
    usleep(400000);
    if (&plugin_constructed) plugin_constructed = 1;
}
#endif
