/* What GCC and Clang understand beyond C17. */
#ifndef OFFHEAP_COMPILER_H
#define OFFHEAP_COMPILER_H

#define EXPORT __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#endif
