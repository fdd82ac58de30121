/*
 * got_cases CASE FOLDER: one case of GOT patching, with the modules that test_got.py links into FOLDER.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "got_library.h"

#define CHECK(what)                                                    \
    do {                                                               \
        if (!(what)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            _exit(1);                                                  \
        }                                                              \
    } while (0)

enum { SLOTS = 20000 };
static struct got_slot before[SLOTS], after[SLOTS];
static const char *folder;
static struct got_api *api;
volatile int plugin_constructed;

static const char *path_of(const char *name) {
    static _Thread_local char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void *load(const char *name, int mode) {
    void *handle = dlopen(path_of(name), mode);
    if (!handle) fprintf(stderr, "%s\n", dlerror());
    CHECK(handle);
    return handle;
}

static void *lazy, *now; /* loaded before the library */

static void use_api(void) {
    lazy = load("lazy.so", RTLD_LAZY | RTLD_GLOBAL);
    now = load("now.so", RTLD_LAZY | RTLD_GLOBAL);
    api = dlsym(load("library.so", RTLD_NOW), "got_api");
    CHECK(api);
}

typedef void *allocate(size_t size);

/* Allocates through one of a module's three kinds of slot.  Returns how often this called the hook. */
static unsigned long met(void *module, const char *function) {
    allocate *call = (allocate *)dlsym(module, function);
    void (*give_back)(void *) = (void (*)(void *))dlsym(module, "plugin_frees");
    CHECK(call && give_back);
    unsigned long start = api->mallocs();
    give_back(call(100));
    return api->mallocs() - start;
}

static void each_met(void *module, unsigned long times) {
    CHECK(met(module, "plugin_calls") == times);
    CHECK(met(module, "plugin_by_pointer") == times);
    CHECK(met(module, "plugin_by_table") == times);
}

static unsigned long met_by_strdup(void) { /* libc's own call of malloc */
    unsigned long start = api->mallocs();
    char *volatile copy = strdup("some text");
    free(copy);
    return api->mallocs() - start;
}

static void same(size_t count, bool values) {
    CHECK(api->dump(after, SLOTS) == count);
    for (size_t i = 0; i < count; i++) {
        CHECK(before[i].slot == after[i].slot && before[i].protection == after[i].protection);
        CHECK(!values || before[i].value == after[i].value);
    }
}

static void patch_and_restore(void) {
    use_api();
    void *later = load("later.so", RTLD_LAZY); /* its free is not bound yet */
    each_met(lazy, 0);
    CHECK(met_by_strdup() == 0);
    for (int round = 0; round < 3; round++) {
        size_t count = api->dump(before, SLOTS);
        long patched = api->patch();
        CHECK(patched > 6 && (size_t)patched < count);
        same(count, false); /* pages keep their protection */
        CHECK(api->patch() == patched);
        each_met(lazy, 1);
        each_met(now, 1);
        each_met(later, 1);
        CHECK(met_by_strdup() == 1);
        CHECK(api->restore() == patched);
        same(count, true);
        each_met(lazy, 0);
        CHECK(met_by_strdup() == 0);
        CHECK(api->restore() == 0);
        CHECK(api->follow() == 0); /* as the hook of a dlopen that began before the restore calls it */
        same(count, true);
    }
}

static void come_and_go(void) {
    use_api();
    void *closed = load("closed.so", RTLD_NOW);
    long with_closed = api->patch();
    each_met(closed, 1);
    dlclose(closed);
    CHECK(!dlopen(path_of("closed.so"), RTLD_NOLOAD | RTLD_LAZY));
    long without = api->follow();
    CHECK(without < with_closed);
    api->restore();

    void *later = load("later.so", RTLD_LAZY);
    size_t count = api->dump(before, SLOTS);
    long with_later = api->patch();
    CHECK(with_later > without);
    each_met(later, 1);
    closed = load("closed.so", RTLD_NOW); /* most likely at its old address: new slots in an old place */
    each_met(closed, 0);
    CHECK(api->follow() == with_later + (with_closed - without));
    each_met(closed, 1);
    dlclose(closed);
    api->restore();
    same(count, true);
    each_met(later, 0);
}

/* The patching must not change a module whose calls are bound to its own allocator. */
static void own_allocator(void) {
    use_api();
    void *own = load("own.so", RTLD_NOW | RTLD_DEEPBIND);
    size_t count = api->dump(before, SLOTS);
    CHECK(api->patch() > 0);
    each_met(own, 0);
    api->restore();
    same(count, true);
}

/* Another tool's hook stays.  Restoring leaves alone a slot that another tool has bound anew. */
static void *others_malloc(size_t size) { return calloc(1, size); }

static void others(void) {
    use_api();
    allocate **table = (allocate **)dlsym(lazy, "plugin_table");
    allocate *original = table[0];
    table[0] = others_malloc;
    CHECK(api->patch() > 0);
    CHECK(table[0] == others_malloc && met(lazy, "plugin_by_table") == 0 && met(lazy, "plugin_calls") == 1);
    api->restore();
    CHECK(table[0] == others_malloc);
    table[0] = original;
    CHECK(api->patch() > 0 && table[0] != original);
    table[0] = others_malloc;
    api->restore();
    CHECK(table[0] == others_malloc);
}

static void *open_slowly(void *unused) {
    load("slow.so", RTLD_NOW);
    return unused;
}

static bool is_listed(void) {
    for (struct link_map *map = _r_debug.r_map; map; map = map->l_next)
        if (strstr(map->l_name, "slow.so")) return true;
    return false;
}

/* The patching waits for the end of a dlopen that runs in another thread. */
static void in_progress(void) {
    use_api();
    pthread_t thread;
    pthread_create(&thread, NULL, open_slowly, NULL);
    while (!is_listed()) usleep(1000);
    CHECK(!plugin_constructed);
    CHECK(api->patch() > 0);
    CHECK(plugin_constructed);
    each_met(load("slow.so", RTLD_NOLOAD | RTLD_LAZY), 1);
    pthread_join(thread, NULL);
    api->restore();
}

static atomic_bool stop;

static void *reload(void *name) {
    while (!atomic_load(&stop)) {
        void *handle = load(name, RTLD_LAZY);
        api->follow(); /* the hook of dlopen does this */
        void (*give_back)(void *) = (void (*)(void *))dlsym(handle, "plugin_frees");
        give_back(((allocate *)dlsym(handle, "plugin_calls"))(64));
        dlclose(handle);
    }
    return NULL;
}

static void race(void) {
    use_api();
    size_t count = api->dump(before, SLOTS);
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, reload, "closed.so");
    pthread_create(&threads[1], NULL, reload, "later.so");
    for (int round = 0; round < 300; round++) {
        CHECK(api->patch() > 0);
        api->follow();
        CHECK(api->restore() > 0);
        usleep(300);
        CHECK(api->restore() == 0); /* no thread patched after the restore */
    }
    atomic_store(&stop, true);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    /* Lazy binding has changed values too, so the values need not be equal: none may lead to the library. */
    CHECK(api->dump(after, SLOTS) == count);
    for (size_t i = 0; i < count; i++) {
        CHECK(before[i].slot == after[i].slot && before[i].protection == after[i].protection);
        Dl_info where;
        CHECK(!after[i].value || !dladdr(after[i].value, &where) || !strstr(where.dli_fname, "library.so"));
    }
}

/* The probe's search finds what dlsym finds: versions, IFUNCs, both kinds of hash table. */
static void symbols(void) {
    use_api();
    static const char *const names[] = {"malloc",          "calloc",
                                        "realloc",         "free",
                                        "memcpy",          "strlen",
                                        "memmove",         "time",
                                        "realpath",        "glob64",
                                        "dlsym",           "dlopen",
                                        "regexec",         "nftw",
                                        "environ",         "pthread_create",
                                        "qsort",           "sched_getaffinity",
                                        "posix_spawn",     "pthread_cond_wait",
                                        "no_such_function"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *found = api->next(names[i]), *expected = dlsym(RTLD_DEFAULT, names[i]);
        if (found != expected) fprintf(stderr, "%s: %p, not %p\n", names[i], found, expected);
        CHECK(found == expected || !strcmp(names[i], "environ")); /* the program may have a copy relocation */
    }
    static const char *const modules[] = {"sysv.so", "later.so"};
    static const char *const functions[] = {"plugin_calls", "plugin_table", "plugin_frees", "malloc"};
    for (size_t m = 0; m < 2; m++) {
        void *handle = load(modules[m], RTLD_NOW);
        for (size_t f = 0; f < 3; f++) CHECK(api->symbol(handle, functions[f]) == dlsym(handle, functions[f]));
        CHECK(api->symbol(handle, functions[3]) == NULL); /* the module uses it, another defines it */
    }
}

/* The library is preloaded before another allocator: its constructor must already find that allocator. */
static void next(void) {
    api = dlsym(RTLD_DEFAULT, "got_api");
    CHECK(api);
    Dl_info where;
    CHECK(dladdr(api->first_next, &where));
    puts(where.dli_fname);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"patch-and-restore", patch_and_restore},
                 {"come-and-go", come_and_go},
                 {"own-allocator", own_allocator},
                 {"others", others},
                 {"in-progress", in_progress},
                 {"race", race},
                 {"symbols", symbols},
                 {"next", next}};
    if (argc < 3) return 2;
    folder = argv[2];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, argv[1]) != 0) continue;
        cases[i].run();
        return 0;
    }
    return 2;
}
