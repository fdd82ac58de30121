/* As many blocks as its argument says, of 24 to 223 bytes by turns; then frees every tenth.  Says "ready". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments) {
    long blocks = count > 1 ? atol(arguments[1]) : 0;
    char **kept = malloc((size_t)blocks * sizeof(char *));
    for (long i = 0; i < blocks; i++) {
        size_t size = 24 + (size_t)(i * 7919) % 200;
        kept[i] = malloc(size);
        memset(kept[i], 1, size);
    }
    for (long i = 3; i < blocks; i += 10)
        free(kept[i]);
    puts("ready");
    fflush(stdout);
    pause();
}
