import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import sun.misc.Unsafe;

/**
 * Leaks 400 KB a second of malloc while it gives back 8 MB a second of something else: RSS falls, and it leaks.
 *
 * <p>Arguments: `malloc` (large blocks are freed) or `heap` (Java objects are dropped and collected), seconds until it
 * begins, and seconds that it takes.  Prints "pid N", "ready" when it begins to wait, and at the end "leaked BYTES".
 */
public class GivesBack {
    private static final int BLOCK = 8000;
    private static final int LARGE = 1 << 20;
    private static final int COUNT = 200;

    static long leaked;

    public static void main(String[] arguments) throws Exception {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        Unsafe unsafe = (Unsafe) field.get(null);
        boolean heap = arguments[0].equals("heap");
        long[] blocks = new long[COUNT];
        List<byte[]> objects = new ArrayList<>();
        for (int i = 0; i < COUNT; i++) {
            if (heap) {
                objects.add(new byte[LARGE]);
            } else {
                blocks[i] = unsafe.allocateMemory(LARGE);
                unsafe.setMemory(blocks[i], LARGE, (byte) 1);
            }
        }
        System.out.println("pid " + ProcessHandle.current().pid());
        System.out.println("ready");
        Thread.sleep((long) (1000 * Double.parseDouble(arguments[1])));
        double seconds = Double.parseDouble(arguments[2]);
        long begin = System.nanoTime();
        int kept = 0;
        int given = 0;
        int collected = 0;
        // By the clock: on a busy machine a step takes longer.
        for (double share = 0; share < 1; ) {
            share = Math.min(1, (System.nanoTime() - begin) / 1e9 / seconds);
            for (; kept < 50 * seconds * share; kept++) {
                keep(unsafe);
            }
            for (; given < (int) (COUNT * share); given++) {
                if (heap) {
                    objects.remove(objects.size() - 1);
                } else {
                    unsafe.freeMemory(blocks[given]);
                }
            }
            // The heap shrinks, and what Java objects own would be freed.
            for (; collected < (int) (seconds * share / 2); collected++) {
                System.gc();
            }
            Thread.sleep(20);
        }
        System.out.println("leaked " + leaked);
        Thread.sleep(600_000);
    }

    static void keep(Unsafe unsafe) {
        unsafe.setMemory(unsafe.allocateMemory(BLOCK), BLOCK, (byte) 1);
        leaked += BLOCK;
    }
}
