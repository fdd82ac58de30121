/*
 * unwind_race SECONDS plugin.so: threads walk stacks through modules that another thread loads
 * and unloads.  Built with ThreadSanitizer.  Every walk must reach its thread's root, and no
 * module may have two rows.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "unwind_capture.h"

static atomic_bool stop, wrong;
static atomic_ulong walks;

static _Thread_local struct capture capture;

static int by_value(const void *a, const void *b) {
    capture_stack(&capture, 256);
    if (capture.end != UNWIND_ROOT || capture.count < 4) atomic_store(&wrong, true);
    atomic_fetch_add(&walks, 1);
    return *(const int *)a - *(const int *)b;
}

static void sort(void) {
    int numbers[] = {4, 1, 3, 2};
    qsort(numbers, 4, sizeof *numbers, by_value);
}

static void *walk(void *unused) {
    while (!atomic_load(&stop)) sort();
    return unused;
}

static void *reload(void *plugin) {
    while (!atomic_load(&stop)) {
        void *handle = dlopen(plugin, RTLD_NOW);
        capture_modules_changed();
        ((void (*)(void (*)(void)))dlsym(handle, "call_back"))(sort);
        dlclose(handle);
        capture_modules_closed();
    }
    return NULL;
}

enum { WALKERS = 3 };

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    pthread_t threads[WALKERS + 1];
    /* No module has a row yet: the walkers meet every module at the same time. */
    for (int i = 0; i < WALKERS; i++) pthread_create(&threads[i], NULL, walk, NULL);
    pthread_create(&threads[WALKERS], NULL, reload, argv[2]);
    struct timespec time = {atoi(argv[1]), 0};
    nanosleep(&time, NULL);
    atomic_store(&stop, true);
    for (int i = 0; i <= WALKERS; i++) pthread_join(threads[i], NULL);

    const struct offheap_module *rows;
    const char *strings;
    uint32_t used = capture_rows(&rows, &strings);
    for (uint32_t i = 0; i < used; i++)
        for (uint32_t k = 0; k < i; k++)
            if (rows[i].start == rows[k].start && !strcmp(strings + rows[i].path, strings + rows[k].path)) {
                fprintf(stderr, "two rows for %s\n", strings + rows[i].path);
                return 1;
            }
    printf("walks %lu rows %u\n", atomic_load(&walks), used);
    return atomic_load(&wrong) || atomic_load(&walks) == 0;
}
