/*
 * The entry points of the probe: for the JVM (-agentpath, attach), and for programs without a JVM.  LD_PRELOAD needs no
 * entry point (preload.c).
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "errors.h"
#include "guard/guard.h"
#include "jfr/flight_recorder.h"
#include "jvm/agent.h"
#include "jvm/jvmti.h"
#include "options.h"
#include "platform/compiler.h"
#include "start/complaint.h"
#include "start/heap_dump.h"
#include "start/start_stop.h"

/* Any result but 0 ends the JVM during its start, so only mistyped options get one. */
EXPORT jint Agent_OnLoad(JavaVM *vm, char *text, void *reserved) {
    (void)reserved;
    struct options options;
    int error = options_parse(&options, text);
    if (error) return error;
    if (!agent_await(vm)) error = PROBE_NO_JVMTI;
    else if (!guard_is_recording())
        error = probe_start(&options, OFFHEAP_AGENTPATH); /* unless a preloaded probe records already */
    if (error) probe_complain(error);
    return PROBE_OK;
}

static int attach_start(JavaVM *vm, const char *text) {
    struct options options;
    int error = options_parse(&options, text);
    if (error) return error;
    if (guard_is_recording()) return PROBE_ALREADY_RECORDING;
    if (!agent_set_up(vm)) return PROBE_NO_JVMTI;
    error = probe_start(&options, OFFHEAP_ATTACH);
    if (error) agent_abandon();
    return error;
}

static int answer(JavaVM *vm, const char *text) {
    if (text && strcmp(text, "stop") == 0) {
        int result = probe_stop();
        flight_recorder_leave(vm);
        return result;
    }
    if (text && strcmp(text, "status") == 0) return guard_is_recording() ? PROBE_OK : PROBE_NOT_RECORDING;
    if (text && strcmp(text, "keep") == 0) {
        probe_keep();
        return PROBE_OK;
    }
    if (text && strcmp(text, "trim") == 0) {
        /* Runs on the thread that serves requests, as the JVM's own command does, which JDK 11 lacks. */
        malloc_trim(0);
        return PROBE_OK;
    }
    if (text && strncmp(text, "dump=", 5) == 0) return heap_dump(text + 5);
    if (text && strcmp(text, "jfr") == 0) return flight_recorder_status(vm);
    if (text && strncmp(text, "jfr=", 4) == 0) return flight_recorder_commit(vm, text + 4);
    if (text && strcmp(text, "start") == 0) return attach_start(vm, NULL);
    if (text && strncmp(text, "start,", 6) == 0) return attach_start(vm, text + 6);
    return PROBE_BAD_OPTIONS;
}

/* "start,<options>", "stop", "keep", "status" (PROBE_OK while recording), "trim", "dump=FILE" (heap_dump.h), "jfr" or
 * "jfr=EVENTS" (flight_recorder.h); called once per request.
 *
 * HotSpot leaks 120 bytes or more for each load that returns 0 (jvmtiAgentList.cpp; in 11 and 17
 * Arguments::add_loaded_agent), and nothing for other loads, whose handle it closes.  The first record is necessary: it
 * keeps this library loaded, so that JDK 21 does not warn about it on stderr again. */
EXPORT jint Agent_OnAttach(JavaVM *vm, char *text, void *reserved) {
    static _Atomic bool known;
    (void)reserved;
    int result = answer(vm, text);
    return result == PROBE_OK && atomic_exchange(&known, true) ? PROBE_OK_AGAIN : result;
}

EXPORT void Agent_OnUnload(JavaVM *vm) {
    (void)vm;
    agent_vm_gone();
}

/* Programs without a JVM to attach through dlopen the library and call these two. */
EXPORT int offheap_start(const char *text) {
    struct options options;
    int error = options_parse(&options, text);
    return error ? error : probe_start(&options, OFFHEAP_ATTACH);
}

EXPORT int offheap_stop(void) { return probe_stop(); }
