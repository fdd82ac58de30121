// A call chain that the compiler inlines into `outer`; the label marks an instruction of the innermost one.

extern "C" void *malloc(unsigned long);

namespace deep {

struct Box {
    unsigned long scale;

    template <class Count> __attribute__((always_inline)) inline void *grab(Count count)
    {
        __asm__ volatile(".globl allocation_site\nallocation_site:"); // INNERMOST
        return malloc(count * scale);
    }
};

struct Twice {
    static __attribute__((always_inline)) inline void *grab(Box &box, unsigned long count)
    {
        return box.grab(count * 2); // MIDDLE
    }
};

__attribute__((noinline)) void *outer(unsigned long count)
{
    Box box{count};
    char *block = static_cast<char *>(Twice::grab(box, count)); // OUTERMOST
    *block = 1; // keeps the call above from being a jump
    return block;
}

} // namespace deep

extern "C" __attribute__((noinline)) void *plain_c_entry(unsigned long count)
{
    return deep::outer(count);
}
