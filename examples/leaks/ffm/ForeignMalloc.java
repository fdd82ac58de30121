package leaks;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/** Calls libc's malloc through the Foreign Function and Memory API, and never free. JDK 22 or newer. */
public final class ForeignMalloc {
    private static final long SIZE = 8192;
    private static final MethodHandle malloc = malloc();

    public static void main(String[] args) throws Exception {
        Exhibit.run(args, 500, ForeignMalloc::storeImage);
    }

    private static void storeImage() {
        allocateImage().reinterpret(SIZE).fill((byte) 1);
    }

    private static MemorySegment allocateImage() {
        try {
            MemorySegment image = (MemorySegment) malloc.invokeExact(SIZE);
            Exhibit.leaked(SIZE);
            return image;
        } catch (Throwable impossible) {
            throw new AssertionError(impossible);
        }
    }

    private static MethodHandle malloc() {
        Linker linker = Linker.nativeLinker();
        return linker.downcallHandle(
                linker.defaultLookup().find("malloc").orElseThrow(),
                FunctionDescriptor.of(ValueLayout.ADDRESS, ValueLayout.JAVA_LONG));
    }
}
