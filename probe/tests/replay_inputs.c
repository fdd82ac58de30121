/*
 * replay_inputs ROUNDS SEED FILE...: runs a libFuzzer program without libFuzzer, on each file as it is and ROUNDS
 * times with a few bytes changed at random or cut off.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROOM = 1 << 16 };
static uint64_t state;

static uint64_t draw(uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
}

int main(int count, char **words) {
    static uint8_t whole[ROOM], damaged[ROOM];
    if (count < 4) return 2;
    state = strtoull(words[2], NULL, 10) * 2 + 1;
    for (int at = 3; at < count; at++) {
        FILE *file = fopen(words[at], "rb");
        if (!file) return 2;
        size_t size = fread(whole, 1, ROOM, file);
        fclose(file);
        LLVMFuzzerTestOneInput(whole, size);
        for (long round = strtol(words[1], NULL, 10); round > 0 && size; round--) {
            memcpy(damaged, whole, size);
            for (uint64_t changes = 1 + draw(8); changes > 0; changes--) damaged[draw(size)] = (uint8_t)draw(256);
            LLVMFuzzerTestOneInput(damaged, draw(8) ? size : draw(size));
        }
    }
    printf("inputs %ld\n", (count - 3) * (1 + strtol(words[1], NULL, 10)));
    return 0;
}
