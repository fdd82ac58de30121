/*
 * parser_fuzz ROUNDS SEED: damages the texts that the probe parses: its options, and /proc/self/maps.
 * Built with AddressSanitizer and UBSan.  The probe must understand undamaged texts, or the fuzzing tests nothing.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "options.c"
#include "platform/mappings.c"

static uint64_t state;

static uint64_t draw(uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
}

static _Noreturn void wrong(const char *what, const char *text) {
    printf("%s: %.600s\n", what, text);
    exit(1);
}

/* Changes, cuts out or doubles a few bytes; writes no NUL.  Returns the new length. */
static size_t damage(char *text, size_t length, size_t room) {
    for (uint64_t times = 1 + draw(4); times-- > 0 && length > 0;) {
        size_t at = draw(length);
        uint64_t how = draw(6);
        if (how < 4) {
            static const char likely[] = "0123456789abcdefkKmMgGiB,=-/ \n[rwxps";
            text[at] = draw(3) ? likely[draw(sizeof likely - 1)] : (char)(1 + draw(255));
        } else if (how == 4) {
            size_t cut = 1 + draw(length - at);
            memmove(text + at, text + at + cut, length - at - cut);
            length -= cut;
        } else {
            size_t more = 1 + draw(length - at);
            if (length + more > room) continue;
            memmove(text + at + more, text + at, length - at);
            length += more;
        }
    }
    return length;
}

static uint64_t accepted;

static bool power(uint64_t number) { return number && !(number & (number - 1)); }

static void fuzz_options(void) {
    static const char *const words[] = {
        "interval=512k",      "interval=4096",      "interval=1GiB", "exact",   "follow",   "dir=/dev/shm",
        "file=/tmp/a.live",   "blocks=1024",        "stacks=9m",     "seed=17", "search=1", "interval=0",
        "blocks=99999999999", "seed=17592186044416"};
    char text[2048] = "";
    size_t length = 0;
    for (uint64_t count = draw(6); count-- > 0;)
        length += (size_t)sprintf(text + length, "%s%s", length ? "," : "", words[draw(sizeof words / sizeof *words)]);
    bool whole = draw(4) == 0;
    if (!whole) length = damage(text, length, sizeof text - 1);
    if (draw(8) == 0 && length < 1000) { /* a path longer than the option's array */
        memcpy(text + length, ",dir=/", 6);
        memset(text + length + 6, 'x', 600);
        length += 606;
        whole = false;
    }
    char *exactly = malloc(length + 1); /* the sanitizer sees a read past its end */
    memcpy(exactly, text, length);
    exactly[length] = 0;
    struct options options;
    int result = options_parse(&options, exactly);
    if (result == PROBE_OK) {
        accepted++;
        if (!power(options.blocks) || options.blocks > 1 << 26 || !power(options.stacks) || options.stacks > 1 << 20)
            wrong("room out of bounds", exactly);
        if (!memchr(options.directory, 0, sizeof options.directory) || !memchr(options.file, 0, sizeof options.file))
            wrong("a path without its end", exactly);
    } else if (whole) {
        wrong("refused", exactly);
    }
    free(exactly);
}

static char maps[1 << 16];
static size_t maps_length;

/* Calls `find` on a text; read() may return it in pieces. */
static bool find_in(const char *text, size_t length, uintptr_t address, struct mapping *mapping, char *path,
                    size_t room) {
    struct reader reader = {.fd = memfd_create("maps", MFD_CLOEXEC)};
    if (reader.fd < 0 || write(reader.fd, text, length) != (ssize_t)length || lseek(reader.fd, 0, SEEK_SET)) exit(2);
    bool found = find(&reader, address, mapping, path, room);
    close(reader.fd);
    return found;
}

static uint64_t mappings_found;

static void fuzz_mappings(void) {
    /* An address in the mapping of a random line, so that a mapping of it exists. */
    size_t at = draw(maps_length);
    while (at > 0 && maps[at - 1] != '\n') at--;
    uintptr_t start, end;
    char protection[5];
    if (sscanf(maps + at, "%lx-%lx %4s", &start, &end, protection) != 3) exit(2);
    uintptr_t address = start + draw(end - start);
    struct mapping mapping;
    size_t room = 1 + draw(80);
    char *path = malloc(room);
    if (!find_in(maps, maps_length, address, &mapping, path, room)) wrong("not found", maps + at);
    if (mapping.start != start || mapping.end != end || !!(mapping.protection & PROT_WRITE) != (protection[1] == 'w') ||
        !!(mapping.protection & PROT_EXEC) != (protection[2] == 'x'))
        wrong("read wrong", maps + at);

    static char copy[sizeof maps];
    memcpy(copy, maps, maps_length);
    size_t length = damage(copy, maps_length, sizeof copy);
    if (find_in(copy, length, address, &mapping, path, room)) {
        mappings_found++;
        if (address < mapping.start || address >= mapping.end) wrong("another mapping", maps + at);
    }
    if (find_in(copy, length, draw(UINT64_MAX), &mapping, NULL, 0)) mappings_found++;
    free(path);
}

int main(int argc, char **argv) {
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) * 2654435761u + 1 : 88172645463325252u;
    FILE *own = fopen("/proc/self/maps", "r");
    maps_length = own ? fread(maps, 1, sizeof maps / 2, own) : 0;
    if (own) fclose(own);
    while (maps_length > 0 && maps[maps_length - 1] != '\n') maps_length--;
    for (uint64_t round = 0; round < rounds; round++) {
        fuzz_options();
        if (round % 16 == 0) fuzz_mappings();
    }
    printf("options %lu mappings %lu\n", (unsigned long)accepted, (unsigned long)mappings_found);
    return 0;
}
