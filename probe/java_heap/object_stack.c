#define _GNU_SOURCE
#include "java_heap/object_stack.h"

#include <stddef.h>

#include "java_heap/class_memo.h"
#include "jvm/java_stack.h"
#include "jvm/method_names.h"
#include "sampling/stack_memo.h"
#include "store/frame_encoding.h"
#include "store/live_file.h"
#include "store/stacks.h"

/* In an event the VM itself walks the stack.  The walk of java_frames.h finds the same frames here by its own means,
 * with a dozen system calls a frame, since AsyncGetCallTrace refuses. */
static size_t java_part(jvmtiEnv *jvmti, uint64_t *frames) {
    jvmtiFrameInfo calls[JAVA_FRAMES];
    jint count = 0;
    if (jvmti_stack(jvmti, JAVA_FRAMES, calls, &count) != JNI_OK || count <= 0) return 0;
    for (jint i = 0; i < count; i++) {
        jlong bci = calls[i].location < 0 ? JAVA_BCI_NATIVE : calls[i].location;
        frames[i] = frame_java(method_slot(calls[i].method), (int32_t)bci);
    }
    live_lose(OFFHEAP_JAVA_JOINED);
    return (size_t)count;
}

static size_t native_part(struct unwind_registers *registers, uint64_t *frames, uint8_t *flags) {
    enum unwind_end end;
    size_t count = unwind(registers, frames, NATIVE_FRAMES, &end);
    if (end == UNWIND_ROOT) return count;
    *flags |= OFFHEAP_STACK_INCOMPLETE;
    if (end == UNWIND_LOST) live_lose(OFFHEAP_LOST_UNWINDS);
    return count;
}

/* Takes 7 KiB of stack: the threads of the VM have large stacks. */
uint32_t object_stack(jvmtiEnv *jvmti, JNIEnv *env, jclass class, struct unwind_registers *registers) {
    uint64_t frames[1 + JAVA_FRAMES];
    uint8_t flags = 0;
    frames[0] = frame_class(class_signature(jvmti, env, class));
    size_t java = java_part(jvmti, frames + 1);
    if (java == JAVA_FRAMES) {
        flags |= OFFHEAP_STACK_TRUNCATED;
        live_lose(OFFHEAP_TRUNCATED);
    }
    size_t depth = 1 + (java ? java : native_part(registers, frames + 1, &flags));
    return stack_intern(frames, depth, OFFHEAP_JAVA, flags);
}
