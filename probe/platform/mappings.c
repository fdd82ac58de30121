#define _GNU_SOURCE
#include "platform/mappings.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Raw system calls: open() and read() are cancellation points, and malloc() must not be one. */
struct reader {
    int fd;
    size_t at, filled;
    char bytes[1024];
};

static int next_byte(struct reader *reader) {
    if (reader->at == reader->filled) {
        long got;
        do got = syscall(SYS_read, reader->fd, reader->bytes, sizeof reader->bytes);
        while (got < 0 && errno == EINTR);
        if (got <= 0) return -1;
        reader->at = 0;
        reader->filled = (size_t)got;
    }
    return (unsigned char)reader->bytes[reader->at++];
}

/* Reads hexadecimal digits and the one byte that ends them. */
static bool read_number(struct reader *reader, uintptr_t *number) {
    *number = 0;
    for (;;) {
        int byte = next_byte(reader);
        if (byte < 0) return false;
        if (byte >= '0' && byte <= '9') *number = *number << 4 | (uintptr_t)(byte - '0');
        else if (byte >= 'a' && byte <= 'f') *number = *number << 4 | (uintptr_t)(byte - 'a' + 10);
        else return true;
    }
}

/* The rest of the line behind the protection: offset, device, inode, blanks, path. */
static void read_path(struct reader *reader, char *path, size_t room) {
    size_t length = 0;
    bool inside = false;
    for (int byte; (byte = next_byte(reader)) >= 0 && byte != '\n';) {
        inside |= byte == '/' || byte == '[';
        if (inside && path && length + 1 < room) path[length++] = (char)byte;
    }
    if (path && room) path[length] = 0;
}

static bool find(struct reader *reader, uintptr_t address, struct mapping *mapping, char *path, size_t room) {
    while (read_number(reader, &mapping->start) && read_number(reader, &mapping->end)) {
        mapping->protection = 0;
        if (next_byte(reader) == 'r') mapping->protection |= PROT_READ;
        if (next_byte(reader) == 'w') mapping->protection |= PROT_WRITE;
        if (next_byte(reader) == 'x') mapping->protection |= PROT_EXEC;
        bool found = address >= mapping->start && address < mapping->end;
        read_path(reader, found ? path : NULL, room);
        if (found) return true;
        if (mapping->start > address) return false;
    }
    return false;
}

bool mapping_of(uintptr_t address, struct mapping *mapping, char *path, size_t room) {
    int saved = errno;
    struct reader reader;
    reader.fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    reader.at = reader.filled = 0;
    bool found = reader.fd >= 0 && find(&reader, address, mapping, path, room);
    if (reader.fd >= 0) syscall(SYS_close, reader.fd);
    errno = saved;
    return found;
}
