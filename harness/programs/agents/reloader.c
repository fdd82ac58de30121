/*
 * -agentpath:reloader.so=LIBRARY: a thread that loads the library, calls it and closes it, again and again.
 * At the JVM's end it prints how often.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char *library;
static atomic_bool over;
static unsigned long reloads;
static pthread_t thread;

static void *reload(void *unused) {
    while (!atomic_load(&over)) {
        void *handle = dlopen(library, reloads % 2 ? RTLD_LAZY : RTLD_NOW);
        void *(*allocate)(size_t) = handle ? (void *(*)(size_t))dlsym(handle, "plugin_malloc") : NULL;
        if (!allocate) {
            fprintf(stderr, "%s\n", dlerror());
            abort();
        }
        free(allocate(1000));
        dlclose(handle);
        if (++reloads % 16 == 0) usleep(2000); /* without, the dynamic linker's lock would seldom be free */
    }
    return unused;
}

int Agent_OnLoad(void *vm, char *options, void *reserved) {
    (void)vm, (void)reserved;
    library = realpath(options, NULL);
    return !library || pthread_create(&thread, NULL, reload, NULL);
}

void Agent_OnUnload(void *vm) {
    (void)vm;
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    printf("reloads %lu\n", reloads);
    fflush(stdout);
}
