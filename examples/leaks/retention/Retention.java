package leaks;

import java.lang.reflect.Field;
import sun.misc.Unsafe;

/** Frees what a burst of requests took, but for a block on top of it: malloc keeps the rest. */
public final class Retention {
    private static final int BLOCKS = 96 << 10;
    private static final int SIZE = 1000;
    private static final int FEW = 1000;
    private static Unsafe unsafe;
    private static long pin;

    public static void main(String[] args) throws Exception {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        unsafe = (Unsafe) field.get(null);
        burst(BLOCKS);
        Exhibit.run(args, 20, () -> burst(FEW));
    }

    private static void burst(int count) {
        long[] blocks = new long[count];
        for (int number = 0; number < count; number++) {
            blocks[number] = unsafe.allocateMemory(SIZE);
            unsafe.setMemory(blocks[number], SIZE, (byte) 1);
        }
        if (pin == 0) {
            pin = unsafe.allocateMemory(SIZE);
        }
        for (long block : blocks) {
            unsafe.freeMemory(block);
        }
    }
}
