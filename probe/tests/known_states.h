/* known_states: the states that a model checker has met. */
#ifndef KNOWN_STATES_H
#define KNOWN_STATES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Known states, by 128 bits of hash: open addressing, doubled when it is half full. */
static struct {
    uint64_t (*hashes)[2];
    size_t capacity, used;
} met;

/* Is a state known?  `size` bytes, a multiple of 8.  A state that is not known becomes known. */
static bool meet(const void *state, size_t size) {
    uint64_t a = 0x9E3779B97F4A7C15, b = 0xBF58476D1CE4E5B9;
    const uint64_t *words = state;
    for (size_t i = 0; i < size / 8; i++) {
        a = (a ^ words[i]) * 0x94D049BB133111EB, a ^= a >> 29;
        b = (b + words[i]) * 0xD6E8FEB86659FD93, b ^= b >> 32;
    }
    if (met.used * 2 >= met.capacity) {
        uint64_t (*old)[2] = met.hashes;
        size_t before = met.capacity;
        met.capacity = before ? before * 2 : 1 << 16;
        met.hashes = calloc(met.capacity, sizeof *met.hashes);
        for (size_t i = 0; i < before; i++) {
            size_t at = old[i][0] & (met.capacity - 1);
            if (!(old[i][0] | old[i][1])) continue;
            while (met.hashes[at][0] | met.hashes[at][1]) at = (at + 1) & (met.capacity - 1);
            memcpy(met.hashes[at], old[i], sizeof *old);
        }
        free(old);
    }
    size_t at = a & (met.capacity - 1);
    for (; met.hashes[at][0] | met.hashes[at][1]; at = (at + 1) & (met.capacity - 1))
        if (met.hashes[at][0] == a && met.hashes[at][1] == b) return true;
    met.hashes[at][0] = a, met.hashes[at][1] = b;
    met.used++;
    return false;
}

static void forget_states(void) {
    free(met.hashes);
    memset(&met, 0, sizeof met);
}

#endif
