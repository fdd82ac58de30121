import java.lang.reflect.Field;
import sun.misc.Unsafe;

/** Took 60 MB of native memory once and has freed all but a hundredth of it; says "ready", then waits. */
public class Burst {
    public static void main(String[] arguments) throws Exception {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        Unsafe unsafe = (Unsafe) field.get(null);
        long[] blocks = new long[30_000];
        for (int i = 0; i < blocks.length; i++) {
            blocks[i] = unsafe.allocateMemory(2_000);
            unsafe.setMemory(blocks[i], 2_000, (byte) 1);
        }
        for (int i = 0; i < blocks.length; i++) {
            if (i % 100 != 0) {
                unsafe.freeMemory(blocks[i]);
            }
        }
        System.out.println("ready");
        while (System.in.read() >= 0) {
            System.out.println("alive");
        }
    }
}
