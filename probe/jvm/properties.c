#define _GNU_SOURCE
#include "jvm/properties.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "guard/guard.h"
#include "store/strings.h"

enum { COMMAND_LINE_BYTES = 16 << 10 }; /* longer ones (class paths) are cut */

static void command_line(void) {
    static char text[COMMAND_LINE_BYTES]; /* probe_start's lock guards it */
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    size_t length = 0;
    for (ssize_t got = 1; got > 0 && length < sizeof text - 1; length += got > 0 ? (size_t)got : 0)
        got = read(fd, text + length, sizeof text - 1 - length);
    close(fd);
    while (length > 0 && text[length - 1] == 0) length--;
    text[length] = 0;
    for (size_t i = 0; i < length; i++)
        if (text[i] == 0) text[i] = 0x1f;
    live_property("cmdline", text);
}

void properties_of_process(void) {
    command_line();
    live_property("java.tool.options", getenv("JAVA_TOOL_OPTIONS"));
    live_property("jdk.java.options", getenv("JDK_JAVA_OPTIONS"));
}

static void copy_property(JNIEnv *env, jclass system, jmethodID get_property, const char *key) {
    jstring name = jni_new_string(env, key);
    if (name) {
        jstring value = jni_call_static_object(env, system, get_property, &(jvalue){.l = name});
        /* A security manager may refuse. */
        if (jni_exception_check(env)) value = NULL;
        const char *text = value ? jni_string_chars(env, value) : NULL;
        if (text) {
            if (guard_enter_to_describe()) {
                live_property(key, text);
                guard_leave();
            }
            jni_release_chars(env, value, text);
        }
    }
    if (jni_exception_check(env)) jni_exception_clear(env);
}

void properties_of_java(JNIEnv *env) {
    static const char *const keys[] = {"java.version", "java.vm.name", "java.vm.version",  "java.vm.info",
                                       "java.vendor",  "java.home",    "sun.java.command", "java.runtime.version"};
    enum { KEYS = sizeof keys / sizeof *keys };
    if (jni_push_local_frame(env, 2 * KEYS + 4) != JNI_OK) {
        jni_exception_clear(env);
        return;
    }
    jclass system = jni_find_class(env, "java/lang/System");
    jmethodID get =
        system ? jni_static_method(env, system, "getProperty", "(Ljava/lang/String;)Ljava/lang/String;") : NULL;
    if (jni_exception_check(env)) jni_exception_clear(env);
    for (int i = 0; get && i < KEYS; i++) copy_property(env, system, get, keys[i]);
    jni_pop_local_frame(env, NULL);
}
