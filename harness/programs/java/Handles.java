import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import sun.misc.Unsafe;

/**
 * Objects of a class that nobody knows, with native memory that their finalizer frees. Arguments: one of how many is
 * kept (0: none), bytes of Java garbage a second.
 */
public final class Handles {
    private static final int BYTES = 64 * 1024;
    private static final int A_SECOND = 50;
    private static final List<Handle> kept = new ArrayList<>();
    private static volatile byte[] scratch;

    static final class Handle {
        private static final Unsafe memory = unsafe();
        private final long address = memory.allocateMemory(BYTES);

        @Override
        @SuppressWarnings({"deprecation", "removal"})
        protected void finalize() {
            memory.freeMemory(address);
        }

        private static Unsafe unsafe() {
            try {
                Field field = Unsafe.class.getDeclaredField("theUnsafe");
                field.setAccessible(true);
                return (Unsafe) field.get(null);
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        int every = Integer.parseInt(args[0]);
        int garbage = Integer.parseInt(args[1]) / A_SECOND;
        System.out.println("ready");
        for (int number = 0; System.in.available() == 0; number++) {
            open(every > 0 && number % every == 0);
            scratch = new byte[garbage];
            Thread.sleep(1000 / A_SECOND);
        }
    }

    private static void open(boolean keep) {
        Handle handle = new Handle();
        if (keep) {
            kept.add(handle);
        }
    }
}
