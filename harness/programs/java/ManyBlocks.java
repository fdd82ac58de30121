import java.lang.reflect.Field;
import sun.misc.Unsafe;

/** Holds many small blocks. Argument: how many. Allocates after a line on stdin, ends after another. */
public class ManyBlocks {
    static void hold(Unsafe unsafe, int count) {
        for (int i = 0; i < count; i++) {
            unsafe.allocateMemory(1_001 + i % 8);
        }
    }

    public static void main(String[] args) throws Exception {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        System.out.println("ready");
        System.in.read();
        hold((Unsafe) field.get(null), Integer.parseInt(args[0]));
        System.out.println("held");
        System.in.read();
    }
}
