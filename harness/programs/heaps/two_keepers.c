// Two named threads that keep blocks by one inlined path, and free others: what a recording of it must say is in
// tests/formats/exported/test_exports.py and test_exports_to_heap_tools.py.

#include <pthread.h>
#include <stdlib.h>

enum { OF_A = 100, OF_B = 40, FREED = 300, EMPTY = 7, TINY = 50 };

static char *volatile kept[OF_A + OF_B + EMPTY + TINY];

static inline __attribute__((always_inline)) char *block(size_t size)
{
    return malloc(size);
}

__attribute__((noinline)) char *keep(size_t size)
{
    char *made = block(size);
    if (size)
        *made = 1;
    return made;
}

__attribute__((noinline)) void churn(void)
{
    for (int i = 0; i < FREED; i++) {
        char *volatile made = malloc(64);
        free(made);
    }
}

static void *keeper_a(void *nothing)
{
    pthread_setname_np(pthread_self(), "keeper-a");
    for (int i = 0; i < OF_A; i++)
        kept[i] = keep(1000);
    return nothing;
}

static void *keeper_b(void *nothing)
{
    pthread_setname_np(pthread_self(), "keeper-b");
    for (int i = 0; i < OF_B; i++)
        kept[OF_A + i] = keep(500);
    return nothing;
}

__attribute__((noinline)) void keep_empty(void)
{
    for (int i = 0; i < EMPTY; i++)
        kept[OF_A + OF_B + i] = malloc(0);
}

__attribute__((noinline)) void keep_tiny(void)
{
    for (int i = 0; i < TINY; i++)
        kept[OF_A + OF_B + EMPTY + i] = malloc(1);
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, keeper_a, NULL);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, keeper_b, NULL);
    pthread_join(thread, NULL);
    churn();
    keep_empty();
    keep_tiny();
    return 0;
}
