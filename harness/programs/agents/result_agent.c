/* The smallest JVMTI agent: its result is the number in its options; "die" ends the process. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) int Agent_OnAttach(void *vm, char *options, void *reserved) {
    (void)vm;
    (void)reserved;
    if (strncmp(options, "die", 3) == 0) _exit(3);
    return atoi(options);
}
