/* A program without any C library that sleeps for ever: for other word sizes and as a dynamic loader's double. */
static long pause_call(void) {
    long result;
#if defined(__x86_64__)
    __asm__ volatile("syscall" : "=a"(result) : "a"(34L) : "rcx", "r11", "memory");
#elif defined(__i386__)
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(29L) : "memory");
#endif
    return result;
}

void _start(void) {
    for (;;) pause_call();
}
