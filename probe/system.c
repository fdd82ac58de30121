#define _GNU_SOURCE
#include "system.h"

#include <time.h>

static uint64_t nanoseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t system_coarse_ns(void) { return nanoseconds(CLOCK_MONOTONIC_COARSE); }
uint64_t system_monotonic_ns(void) { return nanoseconds(CLOCK_MONOTONIC); }
uint64_t system_realtime_ns(void) { return nanoseconds(CLOCK_REALTIME); }
uint64_t system_cpu_ns(void) { return nanoseconds(CLOCK_PROCESS_CPUTIME_ID); }
