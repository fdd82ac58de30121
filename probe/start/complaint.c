#include "start/complaint.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "errors.h"
#include "store/memory_bound.h"

static const char *why_not(int error) {
    switch (error) {
    case PROBE_BAD_OPTIONS: return "the OFFHEAP variable is not understood";
    case PROBE_NO_JVMTI: return "the JVM refuses a JVMTI environment";
    case PROBE_NO_SPACE: return "there is no room for the live file";
    case PROBE_CANNOT_CREATE: return "the live file cannot be made";
    case PROBE_NO_DESCRIPTOR: return "too many files are open";
    case PROBE_CANNOT_MAP: return "there is no address space for the live file";
    default: return "the probe cannot start";
    }
}

/* Without snprintf, which may allocate. */
static void add_kib(char *line, uint64_t bytes) {
    char digits[24], *at = digits + sizeof digits;
    *--at = 0;
    uint64_t kib = bytes >> 10;
    do *--at = (char)('0' + kib % 10);
    while (kib /= 10);
    strcat(strcat(line, at), " KiB");
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
    char line[256] = "offheap: ";
    if (error == PROBE_NO_MEMORY) say_no_memory(line);
    else strcat(line, why_not(error));
    strcat(line, "; nothing is recorded\n");
    if (write(2, line, strlen(line)) < 0) return; /* there is no stderr */
}
