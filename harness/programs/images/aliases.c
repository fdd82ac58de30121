/* Functions with several names, without a size, one within another; the space between two functions. */

int __answer_internal(int n) { return n * 42; }
int _answer(int n) __attribute__((alias("__answer_internal")));
int answer(int n) __attribute__((weak, alias("__answer_internal")));
static int a(int n) __attribute__((alias("__answer_internal"), used));

/* Not exported: a stripped library has no name for it. */
static __attribute__((noinline, used)) int only_local(int n) { return n + 17; }

/* The directives' %function is the one spelling that every assembler takes. */
__asm__(".text\n"
        ".globl sizeless\n"
        ".type sizeless, %function\n"
        "sizeless:\n"
        "    .rept 16\n    nop\n    .endr\n"
        ".globl sized\n"
        ".type sized, %function\n"
        "sized:\n"
        "    .rept 4\n    nop\n    .endr\n"
        ".size sized, . - sized\n"
        "    .rept 16\n    nop\n    .endr\n" /* nobody's */
        ".globl surrounding\n"
        ".type surrounding, %function\n"
        "surrounding:\n"
        "    .rept 4\n    nop\n    .endr\n"
        "label_within:\n"
        "    .rept 4\n    nop\n    .endr\n"
        ".globl nested\n"
        ".type nested, %function\n"
        "nested:\n"
        "    .rept 4\n    nop\n    .endr\n"
        ".size nested, . - nested\n"
        "    .rept 4\n    nop\n    .endr\n"
        ".size surrounding, . - surrounding\n");
