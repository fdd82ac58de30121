/* What the test programs ask of the unwinder, which is a separate library, as in real use. */
#ifndef UNWIND_CAPTURE_H
#define UNWIND_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recording.h"
#include "unwind/unwind.h"

enum { CAPTURE_FRAMES = 1024 };

struct capture {
    size_t count; /* frames that unwind() finds */
    enum unwind_end end;
    struct unwind_registers at; /* where the walk ended */
    uint64_t frames[CAPTURE_FRAMES];
    uintptr_t addresses[CAPTURE_FRAMES]; /* the frames, decoded */
    size_t expected_count;               /* frames of glibc's backtrace(), without the library's own */
    uintptr_t expected[CAPTURE_FRAMES];
};

#define CAPTURE_API __attribute__((visibility("default")))
/* Walks the caller's stack, at most `max` frames. */
CAPTURE_API void capture_stack(struct capture *capture, size_t max);
/* Walks from registers that may be wrong. */
CAPTURE_API void capture_from(struct capture *capture, const struct unwind_registers *registers);
/* Walks the caller's stack, then asks glibc's backtrace(). */
CAPTURE_API void capture_both(struct capture *capture);
/* ns of CPU for one walk of *count frames, the least of many.  Not `cached`: each walk starts without rules. */
CAPTURE_API double capture_cost(unsigned rounds, bool cached, size_t *count);
CAPTURE_API void capture_modules_changed(void);
CAPTURE_API void capture_modules_closed(void);
CAPTURE_API uint32_t capture_rows(const struct offheap_module **rows, const char **strings);
CAPTURE_API uint64_t capture_losses(enum offheap_loss loss);

#endif
