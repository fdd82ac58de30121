#include "options.h"

#include <string.h>

#include "errors.h"

enum {
    DEFAULT_INTERVAL = 512 * 1024,
    DEFAULT_BUDGET = 10000,    /* millionths, unless an interval is stated */
    SAMPLED_BLOCKS = 1 << 16,  /* 32 GiB of live small blocks at 512 KiB */
    LEAST_INTERVAL = 32 << 10, /* if only a budget is stated; a power of two below the default */
    BUDGET_BLOCKS = 1 << 17,   /* 4 GiB at LEAST_INTERVAL; when all are in use, the intervals rise */
    SAMPLED_STACKS = 1 << 14,
    EXACT_BLOCKS = 1 << 21,
    EXACT_STACKS = 1 << 16,
    SAMPLED_MEMORY = 64 << 20, /* 1.9 million blocks */
    JAVA_OBJECTS = 1 << 14,
    MOST_JAVA_INTERVAL = 1 << 30, /* JVMTI takes a jint */
};
static const uint64_t EXACT_MEMORY = UINT64_C(320) << 20; /* 12 million blocks */

/* "512k", "512KiB", "1m", "4096"; -1 on anything else. */
static int64_t parse_number(const char *text, size_t length) {
    uint64_t value = 0;
    size_t i = 0;
    for (; i < length && text[i] >= '0' && text[i] <= '9'; i++) {
        value = value * 10 + (uint64_t)(text[i] - '0');
        if (value > UINT64_C(1) << 44) return -1;
    }
    if (i == 0) return -1;
    if (i == length) return (int64_t)value;
    unsigned shift;
    switch (text[i] | 0x20) {
    case 'k': shift = 10; break;
    case 'm': shift = 20; break;
    case 'g': shift = 30; break;
    default: return -1;
    }
    size_t rest = length - i - 1;
    bool plain = rest == 0, binary = rest == 2 && memcmp(text + i + 1, "iB", 2) == 0;
    if (!plain && !binary) return -1;
    return value > UINT64_C(1) << 50 >> shift ? -1 : (int64_t)(value << shift);
}

/* "1%", "0.25%" in millionths, up to 100 %; -1 on anything else, also on an empty text. */
static int64_t parse_percent(const char *text, size_t length) {
    int64_t value = 0;
    size_t i = 0;
    unsigned places = 0;
    bool point = false;
    for (; i < length && text[i] != '%'; i++) {
        if (text[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (text[i] < '0' || text[i] > '9' || places == 4) return -1;
        value = value * 10 + (text[i] - '0');
        places += point;
        if (value > 10000000) return -1;
    }
    if (i + 1 != length) return -1;
    for (; places < 4; places++) value *= 10;
    return value > 0 && value <= 1000000 ? value : -1;
}

static bool word_is(const char *word, size_t length, const char *name) {
    return strlen(name) == length && memcmp(word, name, length) == 0;
}

static bool copy_path(char *to, size_t room, const char *text, size_t length) {
    if (length == 0 || length >= room) return false;
    memcpy(to, text, length);
    to[length] = 0;
    return true;
}

/* Three numbers separated by points. */
static bool parse_recorder(uint64_t *numbers, const char *text, size_t length) {
    for (int i = 0; i < 3; i++) {
        const char *point = memchr(text, '.', length);
        if ((i < 2) != (point != NULL)) return false;
        size_t digits = point ? (size_t)(point - text) : length;
        int64_t number = parse_number(text, digits);
        if (number < 0) return false;
        numbers[i] = (uint64_t)number;
        text += digits + 1;
        length -= i < 2 ? digits + 1 : digits;
    }
    return true;
}

static bool parse_word(struct options *options, const char *word, size_t length) {
    const char *equals = memchr(word, '=', length);
    if (!equals) {
        if (word_is(word, length, "exact")) return options->interval = 0, true;
        if (word_is(word, length, "follow")) return options->follow = true;
        if (word_is(word, length, "java")) return options->java = true;
        if (word_is(word, length, "force")) return options->force = true;
        if (word_is(word, length, "keep")) return options->keep = true;
        return false;
    }
    size_t name = (size_t)(equals - word);
    const char *value = equals + 1;
    size_t value_length = length - name - 1;
    if (word_is(word, name, "dir"))
        return copy_path(options->directory, sizeof options->directory, value, value_length);
    if (word_is(word, name, "file")) return copy_path(options->file, sizeof options->file, value, value_length);
    if (word_is(word, name, "recorder")) return parse_recorder(options->recorder, value, value_length);
    if (word_is(word, name, "budget")) {
        int64_t millionths = parse_percent(value, value_length);
        options->budget = (uint64_t)millionths;
        return millionths > 0;
    }
    int64_t number = parse_number(value, value_length);
    if (number < 0) return false;
    if (word_is(word, name, "interval")) options->interval = (uint64_t)number;
    else if (word_is(word, name, "memory") && number) options->memory = (uint64_t)number;
    else if (word_is(word, name, "room")) options->room = (uint64_t)number;
    else if (word_is(word, name, "blocks")) options->blocks = (uint64_t)number;
    else if (word_is(word, name, "stacks")) options->stacks = (uint64_t)number;
    else if (word_is(word, name, "seed")) options->seed = (uint64_t)number;
    else if (word_is(word, name, "java-interval") && number > 0 && number <= MOST_JAVA_INTERVAL)
        options->java_interval = (uint64_t)number;
    else if (word_is(word, name, "java-objects") && number > 0) options->java_objects = (uint64_t)number;
    else if (word_is(word, name, "search")) options->search = (uint64_t)number;
    else return false;
    return true;
}

static uint64_t power_of_two(uint64_t at_least, uint64_t low, uint64_t high) {
    uint64_t power = low;
    while (power < at_least && power < high) power *= 2;
    return power;
}

int options_parse(struct options *options, const char *text) {
    memset(options, 0, sizeof *options);
    options->interval = options->room = UINT64_MAX;
    while (text && *text) {
        size_t length = strcspn(text, ",");
        if (length > 0 && !parse_word(options, text, length)) return PROBE_BAD_OPTIONS;
        text += length;
        if (*text == ',') text++;
    }
    bool stated = options->interval != UINT64_MAX;
    if (!stated) options->interval = DEFAULT_INTERVAL;
    if (!stated && !options->budget) options->budget = DEFAULT_BUDGET;
    bool exact = options->interval == 0;
    if (exact) options->budget = 0;
    bool finer = options->budget && !stated;
    options->least = finer ? LEAST_INTERVAL : options->interval;
    if (options->memory == 0) {
        options->memory = exact ? EXACT_MEMORY : SAMPLED_MEMORY;
        /* Stated capacities get additional memory; a stack has up to 64 frames, see section_sizes.c. */
        options->memory += options->blocks * 32 + options->stacks * 1024;
    }
    if (options->java_objects == 0) options->java_objects = JAVA_OBJECTS;
    options->java_objects = power_of_two(options->java_objects, 1 << 8, 1 << 20);
    options->grows = options->blocks == 0;
    if (options->blocks == 0) options->blocks = exact ? EXACT_BLOCKS : finer ? BUDGET_BLOCKS : SAMPLED_BLOCKS;
    if (options->stacks == 0) options->stacks = exact ? EXACT_STACKS : SAMPLED_STACKS;
    /* Hash tables need powers of two; the bounds keep the file under 2 GiB. */
    options->blocks = power_of_two(options->blocks, 1 << 10, 1 << 26);
    options->stacks = power_of_two(options->stacks, 1 << 8, 1 << 20);
    return PROBE_OK;
}
