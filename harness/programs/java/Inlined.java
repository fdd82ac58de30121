import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import sun.misc.Unsafe;

/** Small methods that call one another down to native memory, hot ones: a compiler makes one of them all. */
public class Inlined {
    static final List<Object> kept = new ArrayList<>();
    static Unsafe unsafe;

    static long hot(int bytes) {
        return outer(bytes);
    }

    static long outer(int bytes) {
        return middle(bytes);
    }

    static long middle(int bytes) {
        return inner(bytes);
    }

    static long inner(int bytes) {
        return unsafe.allocateMemory(bytes);
    }

    /** Arguments: how often before, by when hot() is compiled, and how many blocks to keep then. */
    public static void main(String[] args) throws Exception {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        unsafe = (Unsafe) field.get(null);
        int before = Integer.parseInt(args[0]), times = Integer.parseInt(args[1]);
        for (int i = 0; i < before; i++) unsafe.freeMemory(hot(16));
        System.out.println("hot");
        for (int i = 0; i < times; i++) kept.add(hot(54_321));
        System.out.println("done");
    }
}
