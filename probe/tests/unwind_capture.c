#define _GNU_SOURCE
#include "unwind_capture.h"

#include <execinfo.h>
#include <stdbool.h>
#include <time.h>

#include "store/frame_encoding.h"
#include "store/live_file.h"
#include "store/modules.h"

static const struct offheap_module *rows(void) { return LIVE_ROWS(struct offheap_module, OFFHEAP_MODULES); }

static uintptr_t decoded(uint64_t frame) {
    uint64_t low = frame & OFFHEAP_FRAME_ADDRESS_MASK;
    if (frame_kind(frame) != OFFHEAP_FRAME_NATIVE) return (uintptr_t)frame;
    return (uintptr_t)(rows()[(frame >> OFFHEAP_FRAME_MODULE_SHIFT) & 0xfffff].bias + low);
}

static bool own(uintptr_t pc) {
    const struct module *module = module_of(pc);
    return module && module->own;
}

/* A function of this library uses this right after unwind_here(). */
#define WALK(capture, max)                                                                                     \
    do {                                                                                                       \
        unwind_here(&(capture)->at);                                                                           \
        (capture)->count = unwind(&(capture)->at, (capture)->frames, (max), &(capture)->end);                  \
        for (size_t i = 0; i < (capture)->count; i++) (capture)->addresses[i] = decoded((capture)->frames[i]); \
    } while (0)

__attribute__((noinline)) void capture_stack(struct capture *capture, size_t max) { WALK(capture, max); }

void capture_from(struct capture *capture, const struct unwind_registers *registers) {
    capture->at = *registers;
    capture->count = unwind(&capture->at, capture->frames, CAPTURE_FRAMES, &capture->end);
}

__attribute__((noinline)) void capture_both(struct capture *capture) {
    static _Thread_local void *addresses[CAPTURE_FRAMES];
    WALK(capture, CAPTURE_FRAMES);
    size_t count = (size_t)backtrace(addresses, CAPTURE_FRAMES), skipped = 0;
    while (skipped < count && own((uintptr_t)addresses[skipped] - 1)) skipped++;
    for (size_t i = skipped; i < count; i++) capture->expected[i - skipped] = (uintptr_t)addresses[i];
    capture->expected_count = count - skipped;
}

static double cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

__attribute__((noinline)) double capture_cost(unsigned rounds, bool cached, size_t *count) {
    double least = 1e18;
    for (unsigned batch = 0; batch < 20; batch++) {
        uint64_t frames[256];
        double start = cpu_ns();
        for (unsigned i = 0; i < rounds; i++) {
            struct unwind_registers registers;
            enum unwind_end end;
            if (!cached) modules_generation++;
            unwind_here(&registers);
            *count = unwind(&registers, frames, 256, &end);
        }
        double each = (cpu_ns() - start) / rounds;
        if (each < least) least = each;
    }
    return least;
}

void capture_modules_changed(void) { modules_register_all(); }
void capture_modules_closed(void) { modules_forget_closed(); }

uint32_t capture_rows(const struct offheap_module **first, const char **strings) {
    *first = rows();
    *strings = LIVE_ROWS(char, OFFHEAP_STRINGS);
    return (uint32_t)live->sections[OFFHEAP_MODULES].used;
}

uint64_t capture_losses(enum offheap_loss loss) { return live->losses[loss]; }
