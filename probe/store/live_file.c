#define _GNU_SOURCE
#include "store/live_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "errors.h"
#include "platform/compiler.h"
#include "platform/system.h"
#include "store/memory_bound.h"
#include "store/section_sizes.h"

#ifndef PROBE_VERSION /* probe/build.py passes the package's version */
#define PROBE_VERSION "0"
#endif

struct offheap_header *live;

enum {
    PAGE = 65536,       /* the largest page of aarch64: no two sections share a page */
    TICK_NS = 10000000, /* a constant, so that the compiler replaces the division by a multiplication */
    STEP = 64 * 1024,   /* append-only sections are populated in steps of this */
};

/* Only the rows in use take memory: the file is sparse, and the pages of an append-only section are populated step
 * by step.  MADV_POPULATE_WRITE answers "full" where a plain write would be SIGBUS.  Before Linux 5.14 all pages are
 * allocated at the start. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static struct {
    _Atomic uint64_t populated[OFFHEAP_SECTIONS]; /* bytes from the start of the section */
    _Atomic int populating;
    size_t mapped_bytes; /* more than the file's length: includes the room for its growth */
    dev_t device;
    ino_t inode;
    bool lazily;
    char path[PATH_MAX];
} file_state;

static struct {
    char path[PATH_MAX];
    int error;
} refused;

static uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

/* Places the sections one behind the other; returns the length of the file. */
static uint64_t lay_out(struct offheap_section *sections, const struct shape *shapes) {
    uint64_t at = round_up(OFFHEAP_HEADER_BYTES, PAGE);
    for (int i = 0; i < OFFHEAP_SECTIONS; i++) {
        sections[i] =
            (struct offheap_section){.offset = at, .capacity = shapes[i].capacity, .row_bytes = shapes[i].row_bytes};
        at = round_up(at + shapes[i].capacity * shapes[i].row_bytes, PAGE);
    }
    return at;
}

static void hexadecimal(char *to, uint64_t value) {
    for (int i = 15; i >= 0; i--, value >>= 4) to[i] = "0123456789abcdef"[value & 15];
    to[16] = 0;
}

static char *decimal(char *to, uint64_t value) {
    char digits[20];
    int n = 0;
    do digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n > 0) *to++ = digits[--n];
    *to = 0;
    return to;
}

/* <directory>/offheap-<pid>-<16 hexadecimal digits>.live; without snprintf, which may allocate. */
static bool name_in(char *path, size_t room, const char *directory) {
    size_t length = strlen(directory);
    if (length == 0 || length + 64 > room) return false;
    memcpy(path, directory, length);
    char *end = path + length;
    if (end[-1] != '/') *end++ = '/';
    memcpy(end, "offheap-", 8);
    end = decimal(end + 8, (uint64_t)getpid());
    *end++ = '-';
    hexadecimal(end, system_monotonic_ns() ^ (uint64_t)(uintptr_t)&file_state << 20);
    strcat(end, ".live");
    return true;
}

/* linux/magic.h, and fs/bcachefs/bcachefs_format.h of Linux 6.7 */
enum { BTRFS = 0x9123683e, BCACHEFS = 0xca451a4e };

/* Grants the file at most half of the free space: a container's databases need /dev/shm as well.  Refuses file systems
 * that write a page to another place each time: on a full disk a store to an old page would be SIGBUS. */
static int check_room(int fd, uint64_t bytes) {
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0) return PROBE_CANNOT_CREATE;
    uint32_t kind = (uint32_t)fs.f_type;
    if (kind == (uint32_t)BTRFS || kind == (uint32_t)BCACHEFS) {
        errno = ENOTSUP;
        return PROBE_CANNOT_CREATE;
    }
    return (uint64_t)fs.f_bavail * (uint64_t)fs.f_frsize / 2 >= bytes ? PROBE_OK : PROBE_NO_SPACE;
}

/* Bytes that the tables take at the start; rows in use take the rest. */
static uint64_t bytes_at_start(const struct offheap_section *sections) {
    uint64_t bytes = OFFHEAP_HEADER_BYTES + 8 * STEP;
    for (int i = 0; i < OFFHEAP_SECTIONS; i++)
        if (!shape_appends((enum offheap_section_id)i)) bytes += sections[i].capacity * sections[i].row_bytes;
    return bytes;
}

/* PROBE_CANNOT_CREATE, of the file at `path`, by errno. */
static int refuse(const char *path) {
    refused.error = errno;
    strcpy(refused.path, path);
    return PROBE_CANNOT_CREATE;
}

static int not_opened(const char *path) {
    switch (errno) {
    case ENOSPC:
    case EDQUOT: return PROBE_NO_SPACE;
    case EMFILE:
    case ENFILE: return PROBE_NO_DESCRIPTOR;
    default: return refuse(path);
    }
}

/* Address space for the growth of the file.  If RLIMIT_AS limits the address space, the program needs most of it. */
static uint64_t address_space_to_grow(uint64_t wanted) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && wanted > limit.rlim_cur / 16)
        wanted = limit.rlim_cur / 16;
    return wanted / PAGE * PAGE;
}

static struct offheap_header *map(int fd, uint64_t bytes) {
    uint64_t more = address_space_to_grow(memory_for_growth());
    for (;; more = more / 2 / PAGE * PAGE) {
        struct offheap_header *header = system_mmap(NULL, bytes + more, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        file_state.mapped_bytes = bytes + more;
        if (header != MAP_FAILED || !more) return header;
    }
}

static int map_file(const char *path, uint64_t bytes, const struct offheap_section *sections,
                    struct offheap_header **mapped) {
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return not_opened(path);
    int error = check_room(fd, bytes_at_start(sections));
    if (error == PROBE_CANNOT_CREATE) refuse(path);
    if (!error && ftruncate(fd, (off_t)bytes) != 0) error = PROBE_NO_SPACE;
    struct offheap_header *header = MAP_FAILED;
    if (!error) {
        header = map(fd, bytes);
        if (header == MAP_FAILED) error = PROBE_CANNOT_MAP;
    }
    struct stat status;
    if (!error && fstat(fd, &status) != 0) error = refuse(path);
    if (!error) {
        file_state.device = status.st_dev;
        file_state.inode = status.st_ino;
        file_state.lazily = madvise(header, OFFHEAP_HEADER_BYTES, MADV_POPULATE_WRITE) == 0;
        if (!file_state.lazily) {
            if (errno != EINVAL) error = PROBE_NO_SPACE;
            else if (bytes > memory_bound()) error = PROBE_NO_MEMORY;
            else if (posix_fallocate(fd, 0, (off_t)bytes) != 0) error = PROBE_NO_SPACE;
        } else {
            for (int i = 0; i < OFFHEAP_SECTIONS && !error; i++) {
                uint64_t length = round_up(sections[i].capacity * sections[i].row_bytes, PAGE);
                if (!shape_appends((enum offheap_section_id)i) &&
                    madvise((char *)header + sections[i].offset, length, MADV_POPULATE_WRITE) != 0)
                    error = PROBE_NO_SPACE;
            }
        }
    }
    close(fd);
    if (error) {
        if (header != MAP_FAILED) system_munmap(header, file_state.mapped_bytes);
        unlink(path);
        return error;
    }
    strcpy(file_state.path, path);
    /* A forked child must not write into its parent's recording. */
    madvise(header, file_state.mapped_bytes, MADV_DONTFORK);
    *mapped = header;
    return PROBE_OK;
}

static int map_somewhere(const struct options *options, uint64_t bytes, const struct offheap_section *sections,
                         struct offheap_header **mapped) {
    refused.path[0] = 0;
    if (options->file[0]) return map_file(options->file, bytes, sections, mapped);
    const char *temporary = getenv("TMPDIR");
    const char *directories[] = {options->directory[0] ? options->directory : "/dev/shm",
                                 temporary && *temporary == '/' ? temporary : "/tmp", "/tmp"};
    int error = PROBE_CANNOT_CREATE;
    char path[PATH_MAX];
    for (size_t i = 0; i < 3; i++) {
        if (!name_in(path, sizeof path, directories[i])) continue;
        error = map_file(path, bytes, sections, mapped);
        if (!error) break;
    }
    return error;
}

/* Field 22 of /proc/self/stat, counted from the last ')', since the name may contain any character. */
static uint64_t process_start(void) {
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) return 0;
    text[length] = 0;
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* The size that the live table may grow to; 0: it does not grow.  A growing table reads the room below a memory limit
 * again; if only offheap can see the limit, from outside, options->room is all that the probe knows. */
static uint64_t growth_limit(const struct options *options, enum offheap_entry entry) {
    bool outside = entry == OFFHEAP_ATTACH && options->room < options->memory;
    return !options->grows ? 0 : outside ? options->room : options->memory;
}

int live_file_create(const struct options *options, enum offheap_entry entry, uint64_t taken) {
    bool exact = options->interval == 0;
    uint32_t shards = shape_shards(options);
    struct shape shapes[OFFHEAP_SECTIONS];
    struct offheap_section sections[OFFHEAP_SECTIONS];
    uint64_t bound = shape_allowance(options, entry);
    bool smaller;
    bool fits = shape_fit(options, bound, shapes, &taken, &smaller);
    memory_begin(bound, growth_limit(options, entry), taken);
    if (!fits) return PROBE_NO_MEMORY;
    uint64_t bytes = lay_out(sections, shapes);

    struct offheap_header *header;
    int error = map_somewhere(options, bytes, sections, &header);
    if (error) return error;

    for (int i = 0; i < OFFHEAP_SECTIONS; i++) {
        bool whole = !file_state.lazily || !shape_appends((enum offheap_section_id)i);
        file_state.populated[i] = whole ? UINT64_MAX : 0;
    }
    memcpy(header->magic, OFFHEAP_MAGIC, sizeof header->magic);
    header->version = OFFHEAP_VERSION;
    header->header_bytes = OFFHEAP_HEADER_BYTES;
    header->file_bytes = bytes;
    header->mode = exact ? OFFHEAP_EXACT : OFFHEAP_SAMPLED;
    header->entry = entry;
    header->pid = getpid();
    header->uid = getuid();
    header->tick_ns = TICK_NS;
    header->process_start = process_start();
    header->start_realtime_ns = system_realtime_ns();
    header->start_monotonic_ns = header->heartbeat_ns = system_monotonic_ns();
    header->counter_shards = shards;
    header->keys_per_bucket = 8;
    header->intervals[1] = options->least;
    /* A person who names the place wants the file; a recorder only reads it. */
    header->kept = options->keep || (!options->recorder[0] && (options->directory[0] || options->file[0]));
    header->recorder_pid = options->recorder[0];
    header->recorder_start = options->recorder[1];
    header->recorder_namespace = options->recorder[2];
    header->memory_bound = memory_in_all();
    if (smaller) header->coverage |= OFFHEAP_SHORT_OF_MEMORY;
    strncpy(header->probe_version, PROBE_VERSION, sizeof header->probe_version - 1);
    memcpy(header->sections, sections, sizeof sections);
    live = header;

    live_reserve(OFFHEAP_STRINGS, 1); /* offset 0 is "" */
    live_reserve(OFFHEAP_STACKS, 1);  /* row 0 is "no stack" */
    live_populate(OFFHEAP_COUNTERS, shards);
    live_reserve(OFFHEAP_THREADS, 1); /* row 0 is "other threads" */
    return PROBE_OK;
}

const char *live_file_refused(int *error) {
    *error = refused.error;
    return refused.path;
}

void live_file_close(void) {
    struct offheap_header *closing = live;
    live = NULL;
    if (closing) system_munmap(closing, file_state.mapped_bytes);
}

void live_file_remove(void) { unlink(file_state.path); }

uint64_t live_most_blocks(void) {
    const struct offheap_section *keys = &live->sections[OFFHEAP_KEYS], *values = &live->sections[OFFHEAP_VALUES];
    return keys->capacity + (file_state.mapped_bytes - live->file_bytes) / (keys->row_bytes + values->row_bytes);
}

/* Opens the file again: the program might close a descriptor that stays open, and its number might become another
 * file's.  Raw system calls: open() and close() are cancellation points, and malloc() must not be one. */
static int reopen(void) {
    int fd = (int)syscall(SYS_openat, AT_FDCWD, file_state.path, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
    struct stat status;
    if (fd >= 0 && fstat(fd, &status) == 0 && status.st_dev == file_state.device && status.st_ino == file_state.inode)
        return fd;
    if (fd >= 0) syscall(SYS_close, fd);
    return -1;
}

int64_t live_extend(uint64_t bytes) {
    uint64_t offset = round_up(live->file_bytes, PAGE);
    if (offset + bytes > file_state.mapped_bytes) return -1;
    int fd = reopen();
    if (fd < 0) return -1;
    bool ok = check_room(fd, bytes) == PROBE_OK && ftruncate(fd, (off_t)(offset + bytes)) == 0;
    syscall(SYS_close, fd);
    if (!ok) return -1;
    __atomic_store_n(&live->file_bytes, offset + bytes, __ATOMIC_RELEASE);
    return (int64_t)offset;
}

uint64_t live_populate_at(uint64_t offset, uint64_t bytes) {
    uint64_t length = bytes < STEP ? bytes : STEP;
    if (file_state.lazily) return madvise((char *)live + offset, length, MADV_POPULATE_WRITE) == 0 ? length : 0;
    int fd = reopen();
    bool ok = fd >= 0 && syscall(SYS_fallocate, fd, 0, (off_t)offset, (off_t)length) == 0;
    if (fd >= 0) syscall(SYS_close, fd);
    return ok ? length : 0;
}

bool live_publish_segment(uint64_t offset, uint64_t rows) {
    uint64_t count = live->segments;
    if (count == OFFHEAP_SEGMENTS) return false;
    live->segment[count] = (struct offheap_segment){.offset = offset, .capacity = rows};
    __atomic_store_n(&live->segments, count + 1, __ATOMIC_RELEASE);
    return true;
}

/* Makes the first `bytes` of a section safe to write. */
static bool populate(enum offheap_section_id section, uint64_t bytes) {
    if (likely(atomic_load_explicit(&file_state.populated[section], memory_order_acquire) >= bytes)) return true;
    /* A holder keeps the lock for one madvise and never interrupts itself (guard_enter). */
    while (atomic_exchange_explicit(&file_state.populating, 1, memory_order_acquire));
    uint64_t done = atomic_load_explicit(&file_state.populated[section], memory_order_relaxed);
    bool ok = done >= bytes;
    if (!ok) {
        const struct offheap_section *s = &live->sections[section];
        uint64_t whole = round_up(s->capacity * s->row_bytes, PAGE);
        uint64_t want = round_up(bytes, STEP);
        if (want > whole) want = whole;
        uint64_t granted = done ? done : STEP; /* shape_fit counts the first step */
        ok = (want <= granted || memory_grant(want - granted)) &&
             madvise((char *)live + s->offset + done, want - done, MADV_POPULATE_WRITE) == 0;
        if (ok) atomic_store_explicit(&file_state.populated[section], want, memory_order_release);
    }
    atomic_store_explicit(&file_state.populating, 0, memory_order_release);
    return ok;
}

uint64_t live_populated(enum offheap_section_id section) {
    return atomic_load_explicit(&file_state.populated[section], memory_order_acquire);
}

bool live_populate(enum offheap_section_id section, uint64_t rows) {
    return populate(section, rows * live->sections[section].row_bytes);
}

int64_t live_reserve(enum offheap_section_id section, uint64_t rows) {
    struct offheap_section *s = &live->sections[section];
    uint64_t first = __atomic_load_n(&s->used, __ATOMIC_RELAXED);
    do {
        if (rows > s->capacity - first) return -1;
        if (!populate(section, (first + rows) * s->row_bytes)) return -1;
    } while (!__atomic_compare_exchange_n(&s->used, &first, first + rows, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    return (int64_t)first;
}

void live_lose(enum offheap_loss loss) { __atomic_fetch_add(&live->losses[loss], 1, __ATOMIC_RELAXED); }

void live_cover(uint64_t add, uint64_t remove) {
    if (!live) return;
    __atomic_fetch_or(&live->coverage, add, __ATOMIC_RELAXED);
    __atomic_fetch_and(&live->coverage, ~remove, __ATOMIC_RELAXED);
}

uint32_t live_tick(void) {
    /* The coarse clock may be up to 4 ms behind the time of the start. */
    uint64_t now = system_coarse_ns(), start = live->start_monotonic_ns;
    uint64_t ticks = now > start ? (now - start) / TICK_NS : 0;
    return ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX; /* after 497 days */
}
