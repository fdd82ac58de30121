#define _GNU_SOURCE
#include "start/environment.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_java_image(struct dl_phdr_info *info, size_t size, void *found) {
    (void)size;
    if (strstr(info->dlpi_name, "/libjli.so") || strstr(info->dlpi_name, "/libjvm.so")) *(bool *)found = true;
    return 0;
}

bool environment_is_java(void) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length > 0) {
        path[length] = 0;
        const char *slash = strrchr(path, '/');
        if (slash && strcmp(slash, "/java") == 0) return true;
    }
    bool found = false;
    dl_iterate_phdr(is_java_image, &found);
    return found;
}

extern char **environ;

void environment_leave(void) {
    for (char **variable = environ; variable && *variable; variable++) {
        if (strncmp(*variable, "LD_PRELOAD=", 11) != 0) continue;
        /* In place, since setenv allocates; the value only gets shorter. */
        char *from = *variable + 11, *to = from;
        while (*from) {
            size_t separators = strspn(from, ": "), length = strcspn(from + separators, ": ");
            char *word = from + separators;
            bool ours = memmem(word, length, "liboffheap", 10) != NULL;
            if (!ours && length) {
                if (to != *variable + 11) *to++ = ':';
                memmove(to, word, length);
                to += length;
            }
            from = word + length;
        }
        *to = 0;
    }
    if (getenv("LD_PRELOAD") && !*getenv("LD_PRELOAD")) unsetenv("LD_PRELOAD");
    unsetenv("OFFHEAP");
}

static bool due;

void environment_leave_later(void) { due = true; }

void environment_leave_if_due(void) {
    if (!due) return;
    due = false;
    environment_leave();
}
