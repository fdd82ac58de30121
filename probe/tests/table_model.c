/*
 * table_model: runs every interleaving of a few threads over a tiny live table, and checks what an outside reader sees.
 *
 * probe/store/table.c itself runs, with its atomics replaced by steps of the model.  A thread is a function of the
 * values that its steps return.  So a state is the table, the stores of each thread that are not visible yet, and
 * each thread's values; the model brings a thread back to a state by running it again on its values, up to the next
 * step.
 *
 * The memory model is weaker than any supported machine: a thread's stores become visible in any order, except that
 * stores to one address keep their order, a release store follows all stores before it, and a release fence separates
 * stores (PSO, as on SPARC; aarch64 does not reorder stores more than this).  Compare-and-swap is visible at once.
 *
 * If a check fails in any interleaving, the program prints the failure and exits with status 1.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table_steps.h"

#include "known_states.h"
#include "table_scenarios.h"

struct pending {
    struct step step;
    unsigned fences; /* release fences before it */
};

/* `values` belong to the present operation only: an earlier operation leaves only its outcome. */
struct thread {
    uint8_t done;      /* number of operations */
    uint8_t succeeded; /* operations that succeeded, by bit */
    uint8_t known, waiting;
    unsigned fences;
    uint64_t values[STEPS];
    struct pending pending[PENDING];
};

struct memory {
    uint64_t keys[ALL];
    struct offheap_value values[ALL];
    uint64_t count, target, second; /* the second segment's keys */
    uint8_t passed[ALL], filter[KEYS];
};

struct state {
    struct memory memory;
    struct thread threads[THREADS];
};

static uint64_t keys[ALL];
static struct offheap_value values[ALL];
static uint64_t addresses[KEYS];
static const struct scenario *scenario;
static uint64_t watched;      /* the only slot that the reader reads: its reads of a slot do not depend on others */
static uint64_t untouched_at; /* slot of a block that no thread touches */
static unsigned long states;

static struct thread *running; /* NULL: outside the model, where steps run at once */
static unsigned position;
static struct step next;
static jmp_buf stopped;

static _Noreturn void wrong(const char *what) {
    printf("%s, slot %lu: %s\n", scenario->name, (unsigned long)watched, what);
    exit(1);
}

static uint64_t load(const void *at, unsigned bytes) {
    return bytes == 1 ? *(const uint8_t *)at : *(const uint64_t *)at;
}

static void store(void *at, unsigned bytes, uint64_t value) {
    if (bytes == 1) *(uint8_t *)at = (uint8_t)value;
    else *(uint64_t *)at = value;
}

static uint64_t take(struct step step) {
    if (running && position == running->known) {
        if (step.kind != FENCE && (uintptr_t)step.at < 4096) wrong("a segment is used before it is made");
        next = step;
        longjmp(stopped, 1);
    }
    if (running) return running->values[position++];
    uint64_t old = step.kind == FENCE ? 0 : load(step.at, step.bytes);
    if (step.kind == STORE || (step.kind == SWAP && old == step.expected)) store(step.at, step.bytes, step.value);
    return old;
}

static struct offheap_value value_of(unsigned key, unsigned turn) {
    return (struct offheap_value){.block = addresses[key] ^ turn, .stack = turn, .birth = turn};
}

static bool is_value_of(uint64_t address, uint64_t first, uint64_t second) {
    uint64_t turn = second & UINT32_MAX;
    return turn && turn <= 3 && second == (turn | turn << 32) && first == (address ^ turn);
}

/* Performs one operation.  Returns whether it succeeded. */
static bool perform(struct op op) {
    const void *block = (const void *)(uintptr_t)addresses[op.key];
    struct offheap_value value;
    switch (op.verb) {
    case INSERT:
        if (!table_insert(block, value_of(op.key, op.turn))) wrong("a block is refused while there is room");
        return true;
    case INSERT_ANY: return table_insert(block, value_of(op.key, op.turn));
    case REMOVE:
        if (table_lacks(block)) wrong("the filter lacks a block that is in the table");
        if (!table_remove(block, &value)) wrong("a block that is in the table is not found");
        if (value.block != value_of(op.key, op.turn).block || value.stack != op.turn)
            wrong("a block has lost its value");
        return true;
    case REMOVE_ANY: return table_remove(block, &value);
    case GROW: return table_add(keys + SLOTS, values + SLOTS, SLOTS);
    default: return true;
    }
}

/* Reads as src/offheap/probe/live_files/live_file.py: two copies, equal rows count.  Unlike there, the first difference
 * ends the reading: the rest changes no result. */
static bool keeps_row(uint64_t *key, uint64_t row[2]) {
    for (int copy = 0; copy < 2; copy++) {
        uint64_t again = __atomic_load_n(&keys[watched], __ATOMIC_RELAXED);
        if (copy ? again != *key : !again || again & 1) return false;
        *key = again;
        for (int i = 0; i < 2; i++) {
            uint64_t word = __atomic_load_n((uint64_t *)&values[watched] + i, __ATOMIC_RELAXED);
            if (copy && word != row[i]) return false;
            row[i] = word;
        }
    }
    return true;
}

static void read_outside(void) {
    uint64_t key, row[2];
    bool kept = keeps_row(&key, row);
    if (kept && !is_value_of(key, row[0], row[1])) wrong("the reader keeps a row that nobody has written");
    if (!kept && untouched_at == watched) wrong("the reader misses a block that nobody has touched");
}

static struct op present(const struct thread *thread, unsigned number) {
    return scenario->threads[number][thread->done];
}

static bool finished(const struct thread *thread, unsigned number) {
    return number == READER ? thread->done > 0 : thread->done == 4 || !present(thread, number).verb;
}

/* Runs a thread on its values.  True: it stops before `next`; false: its operation ended with `outcome`. */
static bool resume(struct thread *thread, unsigned number, bool *outcome) {
    running = thread;
    position = 0;
    if (setjmp(stopped)) {
        running = NULL;
        return true;
    }
    if (number == READER) {
        read_outside();
        *outcome = true;
    } else {
        *outcome = perform(present(thread, number));
    }
    running = NULL;
    return false;
}

static void to_memory(const struct state *state) {
    memcpy(keys, state->memory.keys, sizeof keys);
    memcpy(values, state->memory.values, sizeof values);
    memcpy((void *)table.passed, state->memory.passed, ALL);
    memcpy((void *)&table.count, &state->memory.count, sizeof table.count);
    memcpy((void *)&table.target, &state->memory.target, sizeof table.target);
    memcpy((void *)&table.segments[1].keys, &state->memory.second, sizeof table.segments[1].keys);
    for (unsigned k = 0; k < KEYS; k++)
        table_filter[table_filter_index((void *)(uintptr_t)addresses[k])] = state->memory.filter[k];
}

static void from_memory(struct state *state) {
    memcpy(state->memory.keys, keys, sizeof keys);
    memcpy(state->memory.values, values, sizeof values);
    memcpy(state->memory.passed, (void *)table.passed, ALL);
    memcpy(&state->memory.count, (void *)&table.count, sizeof table.count);
    memcpy(&state->memory.target, (void *)&table.target, sizeof table.target);
    memcpy(&state->memory.second, (void *)&table.segments[1].keys, sizeof table.segments[1].keys);
    for (unsigned k = 0; k < KEYS; k++)
        state->memory.filter[k] = table_filter[table_filter_index((void *)(uintptr_t)addresses[k])];
}

static const struct pending *own_store(const struct thread *thread, const void *at) {
    for (unsigned i = thread->waiting; i-- > 0;)
        if (thread->pending[i].step.at == at) return &thread->pending[i];
    return NULL;
}

/* May the thread's store number i become visible now? */
static bool may_land(const struct thread *thread, unsigned i) {
    const struct pending *its = &thread->pending[i];
    for (unsigned k = 0; k < i; k++)
        if (its->step.release || thread->pending[k].step.at == its->step.at || thread->pending[k].fences < its->fences)
            return false;
    return true;
}

/* All threads have ended: the table must hold what the operations leave, and its counts must be right. */
static void check_end(const struct state *state) {
    int count[KEYS] = {0}, passed[ALL] = {0}, filter[KEYS] = {0};
    for (unsigned i = 0; i < 4; i++)
        if (scenario->before[i].verb) count[scenario->before[i].key]++;
    for (unsigned t = 0; t < 2; t++) {
        for (unsigned i = 0; i < state->threads[t].done; i++) {
            struct op op = scenario->threads[t][i];
            if (op.verb == AWAIT || op.verb == GROW || !(state->threads[t].succeeded & 1 << i)) continue;
            if (op.verb == REMOVE || op.verb == REMOVE_ANY) count[op.key]--;
            else if (count[op.key] < 1 || op.turn == 1) count[op.key]++; /* otherwise it replaces the old one */
        }
    }
    for (unsigned slot = 0; slot < ALL; slot++) {
        uint64_t key = state->memory.keys[slot];
        const struct segment *segment = &table.segments[slot / SLOTS];
        unsigned first = slot / SLOTS * SLOTS;
        if (!key) continue;
        unsigned k = 0;
        while (k < KEYS && addresses[k] != key) k++;
        if (k == KEYS || --count[k] < 0) wrong("at the end a slot holds what should not be there");
        filter[k]++;
        for (unsigned n = 0; first + nth_bucket(segment, key, n) != slot; n++)
            passed[first + nth_bucket(segment, key, n)]++;
        const uint64_t *words = (const uint64_t *)&state->memory.values[slot];
        if (!is_value_of(key, words[0], words[1])) wrong("at the end a slot holds a torn value");
    }
    for (unsigned k = 0; k < KEYS; k++) {
        if (count[k]) wrong("at the end a block is missing, or was freed twice");
        if (filter[k] != state->memory.filter[k]) wrong("at the end the filter counts wrong");
    }
    for (unsigned slot = 0; slot < ALL; slot++)
        if (passed[slot] != state->memory.passed[slot])
            wrong("at the end the keys that went past a bucket are miscounted");
}

static void explore(const struct state *from);

static void remember(struct thread *thread, uint64_t value) {
    if (thread->known == STEPS) abort();
    thread->values[thread->known++] = value;
}

/* Fences before all waiting stores separate nothing: states that differ only in them are equal. */
static void settle(struct thread *thread) {
    unsigned least = thread->waiting ? UINT32_MAX : thread->fences;
    for (unsigned i = 0; i < thread->waiting; i++)
        if (thread->pending[i].fences < least) least = thread->pending[i].fences;
    for (unsigned i = 0; i < thread->waiting; i++) thread->pending[i].fences -= least;
    thread->fences -= least;
}

/* Is this a cell of the filter that only one thread uses? */
static bool its_own(const void *at) {
    for (unsigned k = 0; k < KEYS; k++) {
        if (at != &table_filter[table_filter_index((void *)(uintptr_t)addresses[k])]) continue;
        unsigned threads = 0;
        for (unsigned t = 0; t < 2; t++) {
            bool uses = false;
            for (unsigned i = 0; i < 4; i++) uses |= scenario->threads[t][i].verb && scenario->threads[t][i].key == k;
            threads += uses;
        }
        return threads == 1;
    }
    return false;
}

/*
 * Takes the thread's next step, if the thread can take it now.  True: no other thread can tell whether this step comes
 * before or after its own step, so one order is enough.
 */
static bool advance(const struct state *from, unsigned number) {
    struct state to = *from;
    struct thread *thread = &to.threads[number];
    if (finished(thread, number)) return false;
    if (number != READER && present(thread, number).verb == AWAIT) {
        const struct thread *other = &from->threads[1 - number];
        if (other->done < present(thread, number).turn || other->waiting) return false;
    }
    bool outcome;
    to_memory(from);
    if (!resume(thread, number, &outcome)) {
        if (outcome) thread->succeeded |= (uint8_t)(1 << thread->done);
        thread->done++;
        memset(thread->values, 0, sizeof thread->values);
        thread->known = 0;
        explore(&to);
        return false;
    }
    struct step step = next;
    bool alone = step.kind == STORE || step.kind == FENCE || its_own(step.at);
    const struct pending *own = step.kind == FENCE ? NULL : own_store(thread, step.at);
    switch (step.kind) {
    case LOAD: remember(thread, own ? own->step.value : load(step.at, step.bytes)); break;
    case STORE:
        if (thread->waiting == PENDING) return false; /* a full store buffer: a store must become visible first */
        thread->pending[thread->waiting++] = (struct pending){step, thread->fences};
        remember(thread, 0);
        break;
    case SWAP: {
        if (own || (step.release && thread->waiting)) return false;
        uint64_t old = load(step.at, step.bytes);
        if (old == step.expected) store(step.at, step.bytes, step.value);
        remember(thread, old);
        break;
    }
    case FENCE:
        thread->fences++;
        remember(thread, 0);
        break;
    }
    settle(thread);
    from_memory(&to);
    explore(&to);
    return alone;
}

static void land(const struct state *from, unsigned number, unsigned i) {
    struct state to = *from;
    struct thread *thread = &to.threads[number];
    struct step step = thread->pending[i].step;
    to_memory(from);
    store(step.at, step.bytes, step.value);
    from_memory(&to);
    memmove(&thread->pending[i], &thread->pending[i + 1], (--thread->waiting - i) * sizeof *thread->pending);
    memset(&thread->pending[thread->waiting], 0, sizeof *thread->pending);
    settle(thread);
    explore(&to);
}

static void explore(const struct state *from) {
    if (meet(from, sizeof *from)) return;
    states++;
    bool over = true;
    for (unsigned t = 0; t < THREADS; t++) {
        over &= finished(&from->threads[t], t) && !from->threads[t].waiting;
        if (advance(from, t)) return;
        for (unsigned i = 0; i < from->threads[t].waiting; i++)
            if (may_land(&from->threads[t], i)) land(from, t, i);
    }
    if (over) check_end(from);
}

/* Chooses addresses that share their three buckets and have a filter cell each. */
static void choose_addresses(void) {
    unsigned found = 0;
    for (uint64_t address = 0x7f0000000010; found < KEYS; address += 48) {
        const struct segment *first = &table.segments[0];
        bool distinct = nth_bucket(first, address, 0) == 0 && nth_bucket(first, address, 2) == 2; /* 1 follows */
        distinct &= !table_counts((void *)(uintptr_t)address); /* else its segment's count is a part of the state */
        for (unsigned k = 0; k < found; k++)
            distinct &=
                table_filter_index((void *)(uintptr_t)addresses[k]) != table_filter_index((void *)(uintptr_t)address);
        if (distinct) addresses[found++] = address;
    }
}

int main(void) {
    for (size_t s = 0; s < sizeof scenarios / sizeof *scenarios; s++) {
        scenario = &scenarios[s];
        unsigned long before = states;
        for (watched = 0; watched < (scenario->grows ? ALL : SLOTS); watched++) {
            if (watched % SLOTS == SLOTS - 1) continue; /* no address reaches this bucket */
            memset(keys, 0, sizeof keys);
            memset(values, 0, sizeof values);
            if (!table_start(keys, values, SLOTS, ALL, false)) return 2;
            table.segments[1] = table.segments[0];
            atomic_store(&table.segments[1].keys, NULL);
            choose_addresses();
            for (unsigned i = 0; i < 4 && scenario->before[i].verb; i++) perform(scenario->before[i]);
            untouched_at = ALL;
            for (unsigned i = 0; i < ALL; i++)
                if (scenario->untouched >= 0 && keys[i] == addresses[scenario->untouched]) untouched_at = i;
            static struct state start;
            memset(&start, 0, sizeof start);
            from_memory(&start);
            forget_states();
            explore(&start);
        }
        printf("%s: %lu states\n", scenario->name, states - before);
    }
    return 0;
}
