package com.example.labels;

import com.example.load.Load;
import com.sun.jna.Native;
import com.sun.jna.Pointer;

/** Copies the text of labels for a printer's C interface; the leaking twin does not free what `strdup` gave. */
public final class Labels {
    private static final int LENGTH = 2000;
    private static final String FILL = "-".repeat(LENGTH);

    /** The C library, mapped directly onto this class. */
    static final class LibC {
        static {
            Native.register(LibC.class, "c");
        }

        static native Pointer strdup(String text);

        static native void free(Pointer block);
    }

    private volatile byte first;

    void print(long number) {
        Pointer label = LibC.strdup((number + FILL).substring(0, LENGTH - 1));
        first = label.getByte(0);
        if (Load.leaks()) {
            Load.leaked(LENGTH);
        } else {
            LibC.free(label);
        }
    }

    public static void main(String[] args) throws InterruptedException {
        Load.run(args, 200, new Labels()::print);
    }
}
