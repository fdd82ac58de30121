/* What the test programs ask of the unwinder, which is a library of its own as in real use. */
#ifndef UNWIND_CAPTURE_H
#define UNWIND_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recording.h"
#include "unwind/unwind.h"

enum { CAPTURE_FRAMES = 1024 };

struct capture {
    size_t count; /* frames of ours */
    enum unwind_end end;
    struct unwind_registers at; /* where it ended */
    uint64_t frames[CAPTURE_FRAMES];
    uintptr_t addresses[CAPTURE_FRAMES]; /* the same, decoded */
    size_t expected_count;               /* glibc's backtrace(), without the library's own frames */
    uintptr_t expected[CAPTURE_FRAMES];
};

#define CAPTURE_API __attribute__((visibility("default")))
/* Walks the caller's stack, at most `max` frames. */
CAPTURE_API void capture_stack(struct capture *capture, size_t max);
/* Walks from registers that may be wrong. */
CAPTURE_API void capture_from(struct capture *capture, const struct unwind_registers *registers);
/* The caller's stack, and then glibc's own answer. */
CAPTURE_API void capture_both(struct capture *capture);
/* ns of CPU for one walk, the least of many; *count frames.  Unless `cached` it knows no rule yet. */
CAPTURE_API double capture_cost(unsigned rounds, bool cached, size_t *count);
CAPTURE_API void capture_modules_changed(void);
CAPTURE_API void capture_modules_closed(void);
CAPTURE_API uint32_t capture_rows(const struct offheap_module **rows, const char **strings);
CAPTURE_API uint64_t capture_losses(enum offheap_loss loss);

#endif
