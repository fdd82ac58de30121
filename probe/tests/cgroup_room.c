/* Prints what probe/platform/cgroup.c reads below the folder that the build sets: "limit left", or "none". */
#include <stdio.h>

#include "platform/cgroup.c"

int main(void) {
    struct cgroup_room room;
    if (!cgroup_read(&room)) puts("none");
    else printf("%lu %lu\n", (unsigned long)room.limit, (unsigned long)room.left);
    return 0;
}
