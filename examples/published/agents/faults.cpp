/* A JVMTI agent that counts exceptions by the message they carry and the method that threw: an entry for each message
 * that it has not seen.  With the option `healthy` it starts anew when it knows a thousand, else never. */

#include <jvmti.h>

#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

namespace faults {

struct Fault {
    std::string message;
    std::string method;
    long count = 0;
};

const size_t MOST = 1000;
bool bounded;
std::mutex mutex;
std::unordered_map<std::string, Fault> known;
jmethodID get_message;

void record_fault(const char *message, const char *method)
{
    std::lock_guard<std::mutex> guard(mutex);
    if (bounded && known.size() >= MOST)
        known.clear();
    Fault &fault = known[message];
    fault.message = message;
    fault.method = method;
    fault.count++;
}

}  // namespace faults

static void JNICALL on_exception(jvmtiEnv *jvmti, JNIEnv *jni, jthread, jmethodID method, jlocation, jobject thrown,
                                 jmethodID, jlocation)
{
    char *name = nullptr;
    if (jvmti->GetMethodName(method, &name, nullptr, nullptr) != JVMTI_ERROR_NONE)
        return;
    jstring text = static_cast<jstring>(jni->CallObjectMethod(thrown, faults::get_message));
    const char *message = text ? jni->GetStringUTFChars(text, nullptr) : nullptr;
    if (message) {
        faults::record_fault(message, name);
        jni->ReleaseStringUTFChars(text, message);
    }
    jvmti->Deallocate(reinterpret_cast<unsigned char *>(name));
}

static void JNICALL on_start(jvmtiEnv *jvmti, JNIEnv *jni, jthread)
{
    jclass throwable = jni->FindClass("java/lang/Throwable");
    faults::get_message = jni->GetMethodID(throwable, "getMessage", "()Ljava/lang/String;");
    jvmti->SetEventNotificationMode(JVMTI_ENABLE, JVMTI_EVENT_EXCEPTION, nullptr);
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *)
{
    jvmtiEnv *jvmti = nullptr;
    if (vm->GetEnv(reinterpret_cast<void **>(&jvmti), JVMTI_VERSION_11) != JNI_OK)
        return JNI_ERR;
    faults::bounded = options && std::strcmp(options, "healthy") == 0;
    jvmtiCapabilities capabilities;
    std::memset(&capabilities, 0, sizeof capabilities);
    capabilities.can_generate_exception_events = 1;
    if (jvmti->AddCapabilities(&capabilities) != JVMTI_ERROR_NONE)
        return JNI_ERR;
    jvmtiEventCallbacks callbacks;
    std::memset(&callbacks, 0, sizeof callbacks);
    callbacks.VMInit = on_start;
    callbacks.Exception = on_exception;
    jvmti->SetEventCallbacks(&callbacks, sizeof callbacks);
    jvmti->SetEventNotificationMode(JVMTI_ENABLE, JVMTI_EVENT_VM_INIT, nullptr);
    return JNI_OK;
}
