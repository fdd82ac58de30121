// Keeps BLOCKS blocks of 100 bytes, each from a call path of its own: a step for each bit of its number.
#include <stdlib.h>

enum { BITS = 13, BLOCKS = 1 << BITS };

static void *kept[BLOCKS];

static void step(unsigned number, unsigned bits);

static __attribute__((noinline)) void step_of_0(unsigned number, unsigned bits)
{
    step(number, bits);
}

static __attribute__((noinline)) void step_of_1(unsigned number, unsigned bits)
{
    step(number, bits);
}

static __attribute__((noinline)) void step(unsigned number, unsigned bits)
{
    if (!bits)
        kept[number] = malloc(100);
    else if (number >> (bits - 1) & 1)
        step_of_1(number, bits - 1);
    else
        step_of_0(number, bits - 1);
}

int main(void)
{
    for (unsigned number = 0; number < BLOCKS; number++)
        step(number, BITS);
    return 0;
}
