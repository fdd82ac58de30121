/* new_stacks BITS PAUSE_US: allocates a megabyte once from each of 2^BITS call paths. */
#include <stdlib.h>
#include <unistd.h>

static unsigned path;

void left(unsigned bit);
void right(unsigned bit);

static void go_on(unsigned bit) {
    if (bit == 0) {
        void *volatile block = malloc(1 << 20);
        free(block);
    } else if (path >> (bit - 1) & 1) {
        right(bit - 1);
    } else {
        left(bit - 1);
    }
    __asm__ volatile(""); /* no tail calls: each step has its frame */
}

void left(unsigned bit) { go_on(bit), (void)*(volatile unsigned *)&path; }
void right(unsigned bit) { go_on(bit), (void)*(volatile unsigned *)&path; }

int main(int count, char **words) {
    if (count != 3) return 2;
    unsigned bits = (unsigned)atoi(words[1]), pause = (unsigned)atoi(words[2]);
    for (path = 0; path < 1u << bits; path++) {
        left(bits);
        usleep(pause);
    }
    return 0;
}
