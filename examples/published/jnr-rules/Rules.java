package com.example.rules;

import com.example.load.Load;
import jnr.ffi.LibraryLoader;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/** Compiles each customer's rule by the C library's regular expressions; the leaking twin does not free them. */
public final class Rules {
    /** The C library, by jnr-ffi. */
    public interface LibC {
        int regcomp(Pointer compiled, String pattern, int flags);

        void regfree(Pointer compiled);
    }

    private static final int EXTENDED = 1;
    private static final int REGEX_BYTES = 256; // more than sizeof(regex_t) anywhere
    private final LibC libc = LibraryLoader.create(LibC.class).load("c");
    private final ThreadLocal<Pointer> compiled =
            ThreadLocal.withInitial(() -> Memory.allocateDirect(Runtime.getRuntime(libc), REGEX_BYTES));

    void compile(long customer) {
        Pointer rule = compiled.get();
        int status = libc.regcomp(rule, "^([a-z]+)-([0-9]{1,8})-c" + customer + "$", EXTENDED);
        if (status != 0) {
            throw new IllegalStateException("regcomp: " + status);
        }
        if (Load.leaks()) {
            Load.leaked(0);
        } else {
            libc.regfree(rule);
        }
    }

    public static void main(String[] args) throws InterruptedException {
        Load.run(args, 50, new Rules()::compile);
    }
}
