package leaks;

import java.lang.reflect.Field;
import sun.misc.Unsafe;

/** An off-heap map that allocates a new entry on every update and never frees the old one. */
public final class UnsafeMemory {
    private static final int SIZE = 4096;
    private static final Unsafe unsafe = unsafe();
    private static long entry;

    public static void main(String[] args) throws Exception {
        Exhibit.run(args, 500, UnsafeMemory::updateEntry);
    }

    private static void updateEntry() {
        entry = allocateEntry();
        unsafe.putLong(entry, System.nanoTime());
    }

    private static long allocateEntry() {
        long address = unsafe.allocateMemory(SIZE);
        Exhibit.leaked(SIZE);
        return address;
    }

    private static Unsafe unsafe() {
        try {
            Field field = Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            return (Unsafe) field.get(null);
        } catch (ReflectiveOperationException unsupported) {
            throw new AssertionError(unsupported);
        }
    }
}
