/* libcodec.so: leaks through malloc, through a malloc found by dlsym, and through mmap on a raw pthread. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <jni.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WINDOW (256 * 1024)
/* The names are the point of the exercise: nothing may be inlined or turned into a jump. */
#define NAMED __attribute__((noinline, disable_tail_calls))

static void *volatile last;

NAMED static jlong keep_frame(jlong bytes) {
    last = memset(malloc((size_t)bytes), 1, (size_t)bytes);
    return bytes;
}

NAMED static jlong decode_frame(jlong bytes) {
    return keep_frame(bytes);
}

JNIEXPORT NAMED jlong JNICALL Java_leaks_NativeCodec_decode(JNIEnv *env, jclass class, jlong bytes) {
    (void)env, (void)class;
    return decode_frame(bytes);
}

/* As plug-ins, JNA and the FFM linker do: the allocator is a pointer fetched by name. */
static void *(*allocate)(size_t);

NAMED static jlong keep_table_frame(jlong bytes) {
    if (!allocate)
        allocate = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "malloc");
    last = memset(allocate((size_t)bytes), 1, (size_t)bytes);
    return bytes;
}

JNIEXPORT NAMED jlong JNICALL Java_leaks_NativeCodec_decodeWithAllocatorTable(JNIEnv *env, jclass class, jlong bytes) {
    (void)env, (void)class;
    return keep_table_frame(bytes);
}

/* A thread the JVM has never heard of: there is no Java frame to find, and none must be made up. */
static sem_t requested, done;

NAMED static void map_window(void) {
    last = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(last, 1, WINDOW);
}

NAMED static void prefetch_once(void) {
    map_window();
}

NAMED static void *prefetcher_main(void *unused) {
    for (;;) {
        sem_wait(&requested);
        prefetch_once();
        sem_post(&done);
    }
    return unused;
}

JNIEXPORT NAMED void JNICALL Java_leaks_NativeCodec_startPrefetcher(JNIEnv *env, jclass class) {
    pthread_t thread;
    (void)env, (void)class;
    sem_init(&requested, 0, 0);
    sem_init(&done, 0, 0);
    pthread_create(&thread, NULL, prefetcher_main, NULL);
    pthread_setname_np(thread, "prefetcher");
    pthread_detach(thread);
}

JNIEXPORT NAMED jlong JNICALL Java_leaks_NativeCodec_prefetch(JNIEnv *env, jclass class) {
    (void)env, (void)class;
    sem_post(&requested);
    sem_wait(&done);
    return WINDOW;
}

JNIEXPORT NAMED void JNICALL Java_leaks_NativeCodec_addListener(JNIEnv *env, jclass class, jobject listener) {
    (void)class;
    (*env)->NewGlobalRef(env, listener);
}
