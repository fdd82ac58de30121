#define _GNU_SOURCE
#include "start/complaint.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "errors.h"
#include "store/live_file.h"
#include "store/memory_bound.h"

static const char *why_not(int error) {
    switch (error) {
    case PROBE_BAD_OPTIONS: return "the OFFHEAP variable is not understood";
    case PROBE_NO_JVMTI: return "the JVM refuses a JVMTI environment";
    case PROBE_NO_SPACE: return "there is no room for the live file";
    case PROBE_NO_DESCRIPTOR: return "too many files are open";
    case PROBE_CANNOT_MAP: return "there is no address space for the live file";
    default: return "the probe cannot start";
    }
}

/* Without snprintf, which may allocate. */
static void add_number(char *line, uint64_t number) {
    char digits[24], *at = digits + sizeof digits;
    *--at = 0;
    do *--at = (char)('0' + number % 10);
    while (number /= 10);
    strcat(line, at);
}

static void add_kib(char *line, uint64_t bytes) {
    add_number(line, bytes >> 10);
    strcat(line, " KiB");
}

/* Without strerror, which may allocate. */
static void add_errno(char *line, int error) {
    switch (error) {
    case EACCES: strcat(line, "permission denied"); break;
    case EPERM: strcat(line, "operation not permitted"); break;
    case ENOENT: strcat(line, "no such directory"); break;
    case ENOTDIR: strcat(line, "not a directory"); break;
    case EEXIST: strcat(line, "the file exists"); break;
    case EROFS: strcat(line, "read-only file system"); break;
    case ENAMETOOLONG: strcat(line, "file name too long"); break;
    case ENOTSUP: strcat(line, "unsuitable file system"); break;
    default: strcat(line, "error "); add_number(line, (uint64_t)error);
    }
}

/* The path may come from another user's settings, and must not send control characters to a terminal. */
static void add_path(char *line, const char *path) {
    char *end = line + strlen(line);
    for (; *path; path++) *end++ = (unsigned char)*path < ' ' || *path == 127 ? '?' : *path;
    *end = 0;
}

static void say_not_created(char *line) {
    int error;
    const char *path = live_file_refused(&error);
    strcat(line, "cannot create ");
    if (!*path) {
        strcat(line, "the live file: file name too long");
        return;
    }
    add_path(line, path);
    strcat(line, ": ");
    add_errno(line, error);
}

static void say_no_memory(char *line) {
    uint64_t bound, least;
    memory_refused(&bound, &least);
    strcat(line, "the memory limit of its container grants the probe ");
    add_kib(line, bound);
    strcat(line, ", and it needs ");
    add_kib(line, least);
    strcat(line, ": raise the limit, or add the word force to OFFHEAP");
}

void probe_complain(int error) {
    char line[PATH_MAX + 256] = "offheap: ";
    if (error == PROBE_NO_MEMORY) say_no_memory(line);
    else if (error == PROBE_CANNOT_CREATE) say_not_created(line);
    else strcat(line, why_not(error));
    strcat(line, "; nothing is recorded\n");
    if (write(2, line, strlen(line)) < 0) return; /* there is no stderr */
}
