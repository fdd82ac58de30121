package com.example.sessions;

import com.example.load.Load;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/** Calls the published LMDB library through foreign functions; the leaking twin closes no environment it made. */
public final class Sessions {
    private static final String LIBRARY = "org/lmdbjava/lmdbjava-native-linux-x86_64.so";
    private final MethodHandle create;
    private final MethodHandle close;

    Sessions() throws IOException {
        Path library = Files.createTempFile("lmdb", ".so");
        try (InputStream packed = ClassLoader.getSystemResourceAsStream(LIBRARY)) {
            Files.copy(packed, library, StandardCopyOption.REPLACE_EXISTING);
        }
        SymbolLookup lmdb = SymbolLookup.libraryLookup(library, Arena.global());
        Files.delete(library);
        Linker linker = Linker.nativeLinker();
        create =
                linker.downcallHandle(
                        lmdb.find("mdb_env_create").get(),
                        FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.ADDRESS));
        close =
                linker.downcallHandle(
                        lmdb.find("mdb_env_close").get(), FunctionDescriptor.ofVoid(ValueLayout.ADDRESS));
    }

    void open(long session) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment environment = createEnvironment(arena);
            if (Load.leaks()) {
                Load.leaked(0);
            } else {
                closeEnvironment(environment);
            }
        }
    }

    private MemorySegment createEnvironment(Arena arena) {
        MemorySegment result = arena.allocate(ValueLayout.ADDRESS);
        int status;
        try {
            status = (int) create.invokeExact(result);
        } catch (Throwable thrown) {
            throw new AssertionError(thrown);
        }
        if (status != 0) {
            throw new IllegalStateException("mdb_env_create: " + status);
        }
        return result.get(ValueLayout.ADDRESS, 0);
    }

    private void closeEnvironment(MemorySegment environment) {
        try {
            close.invokeExact(environment);
        } catch (Throwable thrown) {
            throw new AssertionError(thrown);
        }
    }

    public static void main(String[] args) throws InterruptedException, IOException {
        Load.run(args, 1500, new Sessions()::open);
    }
}
