/* A JVMTI agent that remembers where sampled objects were made: at each SampledObjectAlloc it keeps the object's
 * class and stack under a tag.  With the option `healthy` it forgets them at ObjectFree, else never. */

#include <jvmti.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace lifetimes {

struct Birth {
    std::string type;
    std::vector<jmethodID> stack;
};

const int DEPTH = 24;
std::mutex mutex;
std::map<jlong, Birth> births;
std::atomic<jlong> last_tag{0};

void remember(jlong tag, const char *type, const jvmtiFrameInfo *frames, jint count)
{
    Birth birth;
    birth.type = type;
    for (jint i = 0; i < count; i++)
        birth.stack.push_back(frames[i].method);
    std::lock_guard<std::mutex> guard(mutex);
    births[tag] = std::move(birth);
}

void forget(jlong tag)
{
    std::lock_guard<std::mutex> guard(mutex);
    births.erase(tag);
}

}  // namespace lifetimes

static void JNICALL on_sampled_allocation(jvmtiEnv *jvmti, JNIEnv *, jthread thread, jobject object,
                                          jclass type, jlong)
{
    jvmtiFrameInfo frames[lifetimes::DEPTH];
    jint count = 0;
    char *signature = nullptr;
    if (jvmti->GetStackTrace(thread, 0, lifetimes::DEPTH, frames, &count) != JVMTI_ERROR_NONE ||
        jvmti->GetClassSignature(type, &signature, nullptr) != JVMTI_ERROR_NONE)
        return;
    jlong tag = ++lifetimes::last_tag;
    jvmti->SetTag(object, tag);
    lifetimes::remember(tag, signature, frames, count);
    jvmti->Deallocate(reinterpret_cast<unsigned char *>(signature));
}

static void JNICALL on_object_free(jvmtiEnv *, jlong tag)
{
    lifetimes::forget(tag);
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *)
{
    jvmtiEnv *jvmti = nullptr;
    if (vm->GetEnv(reinterpret_cast<void **>(&jvmti), JVMTI_VERSION_11) != JNI_OK)
        return JNI_ERR;
    jvmtiCapabilities capabilities;
    std::memset(&capabilities, 0, sizeof capabilities);
    capabilities.can_tag_objects = 1;
    capabilities.can_generate_object_free_events = 1;
    capabilities.can_generate_sampled_object_alloc_events = 1;
    if (jvmti->AddCapabilities(&capabilities) != JVMTI_ERROR_NONE)
        return JNI_ERR;
    jvmti->SetHeapSamplingInterval(4 * 1024);
    jvmtiEventCallbacks callbacks;
    std::memset(&callbacks, 0, sizeof callbacks);
    callbacks.SampledObjectAlloc = on_sampled_allocation;
    callbacks.ObjectFree = on_object_free;
    jvmti->SetEventCallbacks(&callbacks, sizeof callbacks);
    jvmti->SetEventNotificationMode(JVMTI_ENABLE, JVMTI_EVENT_SAMPLED_OBJECT_ALLOC, nullptr);
    if (options && std::strcmp(options, "healthy") == 0)
        jvmti->SetEventNotificationMode(JVMTI_ENABLE, JVMTI_EVENT_OBJECT_FREE, nullptr);
    return JNI_OK;
}
