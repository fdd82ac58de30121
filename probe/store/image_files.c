/*
 * The recorder reads symbols from a module's file.  Many libraries of Maven repositories extract their native part into
 * a temporary folder and delete it as soon as it is loaded, long before anybody names a frame.  Not every user may open
 * /proc/PID/map_files or /proc/PID/mem, but the process's own user may open its descriptors as /proc/PID/fd/N.
 */
#define _GNU_SOURCE
#include "store/image_files.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "platform/cgroup.h"
#include "platform/system.h"
#include "store/live_file.h"

enum {
    MOST = 64,            /* files; a program extracts a few */
    SETTLED_TICKS = 1000, /* of 10 ms */
    COPIES = 16 << 20,    /* bytes of all images; the exports of a library take 10 KB to 1 MB */
    SHARE_OF_ROOM = 8,    /* copies take at most this part of what the cgroup has left: the cgroup charges for them */
};

/* Device and inode identify the file: a program that closes all unknown descriptors may reuse the number. */
struct held {
    uint32_t row;
    int fd;
    dev_t device;
    ino_t inode;
};

static struct {
    atomic_flag busy; /* a thread that finds it taken leaves the work to a later call */
    uint64_t next;    /* the first row that is not handled yet */
    size_t room;      /* bytes that may still be copied */
    uint32_t count;
    struct held held[MOST];
} files = {.busy = ATOMIC_FLAG_INIT};

static struct offheap_module *rows(void) { return LIVE_ROWS(struct offheap_module, OFFHEAP_MODULES); }

static bool take(void) { return live && !atomic_flag_test_and_set_explicit(&files.busy, memory_order_acquire); }
static void give(void) { atomic_flag_clear_explicit(&files.busy, memory_order_release); }

/* Raw system calls: open() and close() are cancellation points, and malloc() must not be one. */
static int open_file(const char *path) {
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
}

static void close_file(int fd) { syscall(SYS_close, fd); }

static bool still_ours(const struct held *held, struct stat *status) {
    return fstat(held->fd, status) == 0 && status->st_dev == held->device && status->st_ino == held->inode;
}

/* `kind`: 0 or OFFHEAP_IMAGE_IN_MEMORY. */
static void hold(uint32_t row, int fd, uint32_t kind) {
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        close_file(fd);
        return;
    }
    files.held[files.count++] = (struct held){row, fd, status.st_dev, status.st_ino};
    __atomic_store_n(&rows()[row].image, ((uint32_t)fd + 1) | kind, __ATOMIC_RELEASE);
}

static const char *path_of(const struct offheap_module *row) {
    const char *path = (const char *)live + live->sections[OFFHEAP_STRINGS].offset + row->path;
    return row->path && path[0] == '/' ? path : NULL;
}

static void hold_file(uint32_t row) {
    const char *path = path_of(&rows()[row]);
    int fd = path ? open_file(path) : -1;
    if (fd >= 0) hold(row, fd, 0);
}

/* glibc relocates pointers in place, except where .dynamic is read-only. */
static uintptr_t pointer(const struct offheap_module *row, const ElfW(Dyn) * entry) {
    uintptr_t at = entry->d_un.d_ptr;
    return at < row->start ? at + row->bias : at;
}

/* The end of the tables of exported symbols: the start of the next table, if there is one. */
static uintptr_t end_of_exports(const struct offheap_module *row, const ElfW(Dyn) * entries, size_t count) {
    uintptr_t last = 0, strings = 0, string_bytes = 0, following = row->end;
    for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
        int64_t tag = entries[i].d_tag;
        uintptr_t at = pointer(row, &entries[i]);
        if (tag == DT_STRTAB) strings = at;
        if (tag == DT_STRSZ) string_bytes = entries[i].d_un.d_val;
        if ((tag == DT_SYMTAB || tag == DT_STRTAB || tag == DT_HASH || tag == DT_GNU_HASH) && at > last) last = at;
    }
    for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
        int64_t tag = entries[i].d_tag;
        uintptr_t at = pointer(row, &entries[i]);
        if ((tag == DT_RELA || tag == DT_JMPREL || tag == DT_VERSYM || tag == DT_VERNEED || tag == DT_INIT) &&
            at > last && at < following)
            following = at;
    }
    return following > strings + string_bytes ? following : strings + string_bytes;
}

static int make_memory_file(void) {
#ifdef SYS_memfd_create
    enum { CLOEXEC = 1, NOEXEC = 8 }; /* Linux 6.3 and later have NOEXEC, and may demand it */
    int fd = (int)syscall(SYS_memfd_create, "offheap-image", CLOEXEC | NOEXEC);
    return fd >= 0 ? fd : (int)syscall(SYS_memfd_create, "offheap-image", CLOEXEC);
#else
    return -1;
#endif
}

/* The write fails with EFAULT if another thread has unmapped the memory. */
static bool copy(int fd, const struct offheap_module *row, uintptr_t from, size_t length) {
    off_t at = (off_t)(from - row->start);
    while (length > 0) {
        long written = syscall(SYS_pwrite64, fd, (const void *)from, length, at);
        if (written <= 0) return false;
        from += (size_t)written;
        at += written;
        length -= (size_t)written;
    }
    return true;
}

/* Copies the part of the image in memory that its exports need. */
static bool copy_image(int fd, const struct offheap_module *row) {
    enum { HEADERS = 24, ENTRIES = 128 };
    ElfW(Ehdr) elf;
    ElfW(Phdr) headers[HEADERS];
    ElfW(Dyn) entries[ENTRIES];
    if (!system_read(row->start, &elf, sizeof elf) || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
        elf.e_phentsize != sizeof *headers || elf.e_phnum > HEADERS ||
        !system_read(row->start + elf.e_phoff, headers, elf.e_phnum * sizeof *headers))
        return false;
    for (size_t i = 0; i < elf.e_phnum; i++) {
        uintptr_t at = row->bias + headers[i].p_vaddr;
        size_t length = headers[i].p_memsz;
        if (headers[i].p_type != PT_DYNAMIC || at < row->start || at + length > row->end) continue;
        if (length > sizeof entries) length = sizeof entries;
        if (!system_read(at, entries, length) || !copy(fd, row, at, length)) return false;
        uintptr_t end = end_of_exports(row, entries, length / sizeof *entries);
        if (end > row->end || end - row->start > files.room) return false;
        files.room -= end - row->start;
        return copy(fd, row, row->start, end - row->start);
    }
    return false;
}

static void hold_memory(uint32_t row) {
    const char *path = path_of(&rows()[row]);
    if (!path || syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0 || errno != ENOENT) return;
    int fd = make_memory_file();
    if (fd < 0) return;
    if (copy_image(fd, &rows()[row])) hold(row, fd, OFFHEAP_IMAGE_IN_MEMORY);
    else close_file(fd);
}

static void each_new(void visit(uint32_t row)) {
    uint64_t used = __atomic_load_n(&live->sections[OFFHEAP_MODULES].used, __ATOMIC_ACQUIRE);
    if (used > live->sections[OFFHEAP_MODULES].capacity) used = live->sections[OFFHEAP_MODULES].capacity;
    for (; files.next < used && files.count < MOST; files.next++) {
        if (!__atomic_load_n(&rows()[files.next].end, __ATOMIC_ACQUIRE)) break; /* being written */
        visit((uint32_t)files.next);
    }
}

static void close_all(void) {
    struct stat status;
    for (uint32_t i = 0; i < files.count; i++)
        if (still_ours(&files.held[i], &status)) close_file(files.held[i].fd);
    files.count = 0;
}

void image_files_start(void) {
    if (!take()) return;
    int saved = errno;
    close_all(); /* files of a recording that ended with a VM */
    struct cgroup_room group;
    files.room = COPIES;
    if (cgroup_read(&group) && group.left / SHARE_OF_ROOM < files.room)
        files.room = (size_t)(group.left / SHARE_OF_ROOM);
    files.next = 0;
    each_new(hold_memory);
    errno = saved;
    give();
}

static void hold_any(uint32_t row) {
    hold_file(row);
    if (!rows()[row].image) hold_memory(row);
}

void image_files_follow(void) {
    if (!take()) return;
    int saved = errno;
    each_new(hold_any);
    errno = saved;
    give();
}

void image_files_settle(void) {
    if (!take()) return;
    uint32_t now = live_tick(), kept = 0;
    int saved = errno;
    for (uint32_t i = 0; i < files.count; i++) {
        struct held *held = &files.held[i];
        struct stat status;
        bool ours = still_ours(held, &status);
        if (ours && (now - rows()[held->row].born < SETTLED_TICKS || status.st_nlink == 0)) {
            files.held[kept++] = *held;
            continue;
        }
        __atomic_store_n(&rows()[held->row].image, 0, __ATOMIC_RELEASE);
        if (ours) close_file(held->fd);
    }
    files.count = kept;
    errno = saved;
    give();
}

void image_files_stop(void) {
    if (!take()) return;
    int saved = errno;
    for (uint32_t i = 0; i < files.count; i++) __atomic_store_n(&rows()[files.held[i].row].image, 0, __ATOMIC_RELEASE);
    close_all();
    errno = saved;
    give();
}
