/* Holds blocks of known sizes in two arenas, frees some, says "ready" and waits; at each character on
 * standard input it trims. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 20000 };

static void *blocks[2][BLOCKS];

static void *take(size_t size) {
    return memset(malloc(size), 1, size);
}

/* Every other block of 1,000 bytes is free, seven of those wait in the thread's cache; a run of 2,000 that
 * lie beside each other is one free chunk. */
static void *work(void *argument) {
    void **mine = argument;
    for (int i = 0; i < BLOCKS; i++)
        mine[i] = take(1000);
    for (int i = 0; i < BLOCKS / 2; i += 2)
        free(mine[i]);
    for (int i = BLOCKS / 2; i < BLOCKS / 2 + 2000; i++)
        free(mine[i]);
    return NULL;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    pthread_t thread;
    work(blocks[0]);
    /* What is free must lie between blocks; the large one fits no free chunk. */
    void *volatile last = take(3000), *volatile large = take(8 << 20);
    (void)last, (void)large;
    pthread_create(&thread, NULL, work, blocks[1]);
    pthread_join(thread, NULL);
    puts("ready");
    while (getchar() != EOF) {
        malloc_trim(0);
        puts("trimmed");
    }
    return 0;
}
