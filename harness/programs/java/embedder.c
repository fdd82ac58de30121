/* A program linked with libjvm: it creates the JVM without dlsym, runs a main method, destroys the JVM
 * and goes on without it.  With -DFORKING it is a daemon's launcher: the JVM is that of a forked child, which
 * loads $LIBJVM.  Arguments: class path, main class, arguments... */
#include <dlfcn.h>
#include <jni.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef FORKING
static jint create(JavaVM **vm, void **env, void *request) {
    void *libjvm = dlopen(getenv("LIBJVM"), RTLD_NOW);
    if (!libjvm) return JNI_ERR;
    return ((jint(*)(JavaVM **, void **, void *))dlsym(libjvm, "JNI_CreateJavaVM"))(vm, env, request);
}
#else
#define create JNI_CreateJavaVM
#endif

int main(int argc, char **argv) {
    if (argc < 3) return 2;
#ifdef FORKING
    pid_t child = fork();
    if (child) {
        int status;
        return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 99;
    }
#endif
    char path[4096];
    snprintf(path, sizeof path, "-Djava.class.path=%s", argv[1]);
    JavaVMOption options[] = {{path, NULL}, {"-Xmx64m", NULL}};
    JavaVMInitArgs request = {JNI_VERSION_1_8, 2, options, JNI_FALSE};
    JavaVM *vm;
    JNIEnv *env;
    if (create(&vm, (void **)&env, &request) != JNI_OK) return 3;
    usleep(300000); /* the probe looks for a complete JVM every few milliseconds */
    jclass string = (*env)->FindClass(env, "java/lang/String"), class = (*env)->FindClass(env, argv[2]);
    if (!class) return 4;
    jobjectArray arguments = (*env)->NewObjectArray(env, argc - 3, string, NULL);
    for (int i = 3; i < argc; i++)
        (*env)->SetObjectArrayElement(env, arguments, i - 3, (*env)->NewStringUTF(env, argv[i]));
    jmethodID method = (*env)->GetStaticMethodID(env, class, "main", "([Ljava/lang/String;)V");
    (*env)->CallStaticVoidMethod(env, class, method, arguments);
    if ((*vm)->DestroyJavaVM(vm) != JNI_OK) return 5;
    for (int i = 0; i < 1000; i++) free(malloc(100));
    puts("destroyed");
    return 0;
}
