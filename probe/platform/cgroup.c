#define _GNU_SOURCE
#include "platform/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Tests replace these paths. */
#ifndef CGROUP_SELF
#define CGROUP_SELF "/proc/self/cgroup"
#define CGROUP_ROOT "/sys/fs/cgroup"
#endif

enum { DEEPEST = 64 }; /* groups on the way to the root */

/* Version 1 has no word for "no limit": it shows the largest multiple of the page size. */
static const uint64_t no_limit = UINT64_C(1) << 60;

/* The limit of a group, and what the kernel charges to it. */
struct pair {
    const char *limit, *usage;
};
static const struct pair pairs_v1[] = {{"memory.limit_in_bytes", "memory.usage_in_bytes"},
                                       {"memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"}};
/* Above memory.high the kernel kills no process, but slows down the whole group. */
static const struct pair pairs_v2[] = {{"memory.max", "memory.current"}, {"memory.high", "memory.current"}};

/* Returns the length; 0 when the file cannot be read.  Raw system calls: open() and read() are cancellation points,
 * and malloc(), which calls this when the live table grows, must not be one. */
static size_t read_file(const char *path, char *text, size_t room) {
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0) return 0;
    size_t length = 0;
    for (long got; length < room - 1 && (got = syscall(SYS_read, fd, text + length, room - 1 - length)) > 0;)
        length += (size_t)got;
    syscall(SYS_close, fd);
    text[length] = 0;
    return length;
}

/* False: there are no digits, as in "max". */
static bool number_at(const char *text, uint64_t *number) {
    if (*text < '0' || *text > '9') return false;
    uint64_t value = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (value > UINT64_MAX / 10 - 1) return false;
        value = value * 10 + (uint64_t)(*text - '0');
    }
    *number = value;
    return true;
}

/* Reads `folder`/`name`; `folder` has room for the name behind its length. */
static size_t read_in(char *folder, const char *name, char *text, size_t room) {
    size_t length = strlen(folder), more = strlen(name);
    if (length + 1 + more >= CGROUP_PATH_BYTES) return 0;
    folder[length] = '/';
    memcpy(folder + length + 1, name, more + 1);
    size_t got = read_file(folder, text, room);
    folder[length] = 0;
    return got;
}

static bool number_in(char *folder, const char *name, uint64_t *number) {
    char text[32];
    return read_in(folder, name, text, sizeof text) && number_at(text, number);
}

/* The number of a line "name 123" of memory.stat; 0 if there is no such line. */
static uint64_t stat_of(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        uint64_t number;
        if (strncmp(line, name, length) == 0 && line[length] == ' ' && number_at(line + length + 1, &number))
            return number;
    }
    return 0;
}

/* Page cache and similar memory that the kernel reclaims before it kills: all inactive pages, and half of the active
 * ones, as MemAvailable counts them.  Pages that the kernel must first write to a disk do not count, nor do files on
 * tmpfs. */
static uint64_t droppable(bool v1, struct cgroup_scratch *scratch) {
    const char *text = scratch->stat;
    if (!read_in(scratch->folder, "memory.stat", scratch->stat, sizeof scratch->stat)) return 0;
    uint64_t bytes = stat_of(text, v1 ? "total_inactive_file" : "inactive_file") +
                     stat_of(text, v1 ? "total_active_file" : "active_file") / 2 +
                     stat_of(text, "slab_reclaimable") / 2;
    uint64_t waiting =
        stat_of(text, v1 ? "total_dirty" : "file_dirty") + stat_of(text, v1 ? "total_writeback" : "file_writeback");
    return bytes > waiting ? bytes - waiting : 0;
}

/* Lowers `least` to the room of this group if the group leaves less. */
static void consider(bool v1, struct cgroup_scratch *scratch, struct cgroup_room *least) {
    char *folder = scratch->folder;
    const struct pair *pairs = v1 ? pairs_v1 : pairs_v2;
    for (int i = 0; i < 2; i++) {
        uint64_t limit, usage;
        if (!number_in(folder, pairs[i].limit, &limit) || limit >= no_limit) continue;
        if (!number_in(folder, pairs[i].usage, &usage)) continue;
        uint64_t cache = droppable(v1, scratch);
        uint64_t kept = usage > cache ? usage - cache : 0;
        uint64_t left = limit > kept ? limit - kept : 0;
        if (left < least->left) *least = (struct cgroup_room){limit, left};
    }
}

/* Reads the process's group below `root`, and all groups above it.  In a container without a cgroup namespace the path
 * is the host's, and the mount begins at a group on that path: then the first parts of the path do not exist. */
static void climb(const char *root, const char *path, bool v1, struct cgroup_scratch *scratch,
                  struct cgroup_room *least) {
    char *folder = scratch->folder;
    size_t base = strlen(root);
    const char *usage = v1 ? "memory.usage_in_bytes" : "memory.current";
    if (strncmp(path, "/..", 3) == 0) path = ""; /* outside of the mount */
    memcpy(folder, root, base + 1);
    for (;;) {
        size_t length = strlen(path);
        while (length && path[length - 1] == '/') length--;
        if (length == 0) break;
        uint64_t number;
        if (base + length < CGROUP_PATH_BYTES) {
            memcpy(folder + base, path, length);
            folder[base + length] = 0;
            if (number_in(folder, usage, &number)) break;
        }
        const char *next = strchr(path + 1, '/');
        path = next ? next : "";
        folder[base] = 0;
    }
    for (int depth = 0; depth < DEEPEST; depth++) {
        consider(v1, scratch, least);
        if (strlen(folder) <= base) break;
        *strrchr(folder, '/') = 0;
        uint64_t inherits;
        if (v1 && number_in(folder, "memory.use_hierarchy", &inherits) && !inherits) break;
    }
}

static bool names_memory(const char *controllers, size_t length) {
    for (const char *end = controllers + length; controllers < end;) {
        const char *comma = memchr(controllers, ',', (size_t)(end - controllers));
        size_t word = (size_t)((comma ? comma : end) - controllers);
        if (word == 6 && memcmp(controllers, "memory", 6) == 0) return true;
        controllers += word + 1;
    }
    return false;
}

bool cgroup_read(struct cgroup_room *room) {
    struct cgroup_scratch scratch;
    return cgroup_read_using(&scratch, room);
}

bool cgroup_read_using(struct cgroup_scratch *scratch, struct cgroup_room *room) {
    int saved = errno;
    char *text = scratch->groups;
    *room = (struct cgroup_room){0, UINT64_MAX};
    read_file(CGROUP_SELF, text, sizeof scratch->groups) || (text[0] = 0);
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n');
        if (!end) break; /* cut */
        *end = 0;
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (path && path[1] == '/') {
            size_t length = (size_t)(path - controllers - 1);
            if (names_memory(controllers + 1, length)) {
                climb(CGROUP_ROOT "/memory", path + 1, true, scratch, room);
            } else if (length == 0 && line[0] == '0' && controllers == line + 1) {
                climb(CGROUP_ROOT, path + 1, false, scratch, room);
                climb(CGROUP_ROOT "/unified", path + 1, false, scratch, room);
            }
        }
        line = end + 1;
    }
    errno = saved;
    return room->left != UINT64_MAX;
}
