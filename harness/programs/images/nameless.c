// Allocates in a function that a stripped program has no name for, until its standard input ends.
#include <stdio.h>
#include <stdlib.h>

static void *kept[100];

__attribute__((noinline)) static void keep(int number) {
    kept[number] = malloc(1000);
}

int main(void) {
    for (int number = 0; number < 100; number++) keep(number);
    puts("ready");
    fflush(stdout);
    (void)getchar();
    return kept[99] == NULL;
}
