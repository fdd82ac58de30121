/* unwind_bench: cost of one walk by depth, in ns of thread CPU, with cached rules and without.  Least of 20 batches. */
#define _GNU_SOURCE
#include <stdio.h>

#include "unwind_capture.h"

static __attribute__((noinline)) double at_depth(int depth, bool cached, size_t *count) {
    volatile double cost =
        depth > 0 ? at_depth(depth - 1, cached, count) : capture_cost(cached ? 20000 : 200, cached, count);
    return cost;
}

int main(void) {
    capture_modules_changed();
    puts("frames  ns/walk  ns/frame  uncached ns/walk");
    for (int depth = 0; depth <= 64; depth = depth * 2 + 1) {
        size_t count = 0;
        double cost = at_depth(depth, true, &count), uncached = at_depth(depth, false, &count);
        printf("%6zu %8.1f %9.2f %17.0f\n", count, cost, cost / (double)count, uncached);
    }
    return 0;
}
