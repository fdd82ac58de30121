// libobserver.so, a JVMTI agent that remembers threads in a std::map.  The entry is meant to go when the
// thread ends, but the numbers given out at the start and at the end are not the same.
#include <jvmti.h>

#include <atomic>
#include <map>
#include <mutex>

// The names are the point of the exercise: nothing may be inlined or turned into a jump.
#define NAMED __attribute__((noinline, disable_tail_calls))

namespace observer {

struct Observation {
    char name[64];
    jlong samples[256];
};

std::mutex lock;
std::map<int, Observation> threads;
std::atomic<int> next{0};

NAMED void remember(int id) {
    std::lock_guard<std::mutex> guard(lock);
    threads[id].name[0] = 1;
}

NAMED void forget(int id) {
    std::lock_guard<std::mutex> guard(lock);
    threads.erase(id);
}

}  // namespace observer

NAMED static void JNICALL on_thread_start(jvmtiEnv *, JNIEnv *, jthread) {
    observer::remember(++observer::next);
}

NAMED static void JNICALL on_thread_end(jvmtiEnv *, JNIEnv *, jthread) {
    observer::forget(-1);
}

extern "C" JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *, void *) {
    jvmtiEnv *jvmti = nullptr;
    if (vm->GetEnv(reinterpret_cast<void **>(&jvmti), JVMTI_VERSION_1_2) != JNI_OK)
        return JNI_ERR;
    jvmtiEventCallbacks callbacks{};
    callbacks.ThreadStart = on_thread_start;
    callbacks.ThreadEnd = on_thread_end;
    jvmti->SetEventCallbacks(&callbacks, sizeof callbacks);
    jvmti->SetEventNotificationMode(JVMTI_ENABLE, JVMTI_EVENT_THREAD_START, nullptr);
    jvmti->SetEventNotificationMode(JVMTI_ENABLE, JVMTI_EVENT_THREAD_END, nullptr);
    return JNI_OK;
}
