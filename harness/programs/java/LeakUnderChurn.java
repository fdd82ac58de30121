import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.zip.Inflater;
import sun.misc.Unsafe;

/**
 * Serves requests of which each takes native memory, and forgets to give some of it back: {@code
 * LeakUnderChurn unsafe|inflater LEAK CHURN BLOCK [PASSING]}, bytes a second that stay, bytes a second that go again,
 * bytes of one block (of an Inflater: about what zlib takes), and of one that goes again, if that is another size.
 *
 * <p>Both have one call path, so that only the age of the blocks tells them apart. It speaks the zoo's language:
 * "pid N", "ready", and once a second "truth BLOCKS BYTES" of what was forgotten until now.
 */
public final class LeakUnderChurn {
    private static final List<Inflater> forgotten = new ArrayList<>();
    private static Unsafe unsafe;
    private static long size;
    private static long passing;
    private static long taken;
    private static long leaked;
    private static double dueToLeak;
    private static volatile byte[] scratch;

    private LeakUnderChurn() {}

    public static void main(String[] words) throws Exception {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        unsafe = (Unsafe) field.get(null);
        boolean inflaters = words[0].equals("inflater");
        double leak = Double.parseDouble(words[1]);
        double churn = Double.parseDouble(words[2]);
        size = Long.parseLong(words[3]);
        passing = words.length > 4 ? Long.parseLong(words[4]) : size;
        System.out.println("pid " + ProcessHandle.current().pid());
        System.out.println("ready");
        long start = System.nanoTime();
        for (long second = 1; ; ) {
            double elapsed = (System.nanoTime() - start) / 1e9;
            dueToLeak = leak * elapsed;
            while (taken + size <= (leak + churn) * elapsed) {
                if (inflaters) {
                    inflate();
                } else {
                    store();
                }
            }
            if (elapsed >= second) {
                System.out.println("truth " + leaked / size + " " + leaked);
                second++;
            }
            scratch = new byte[10_000]; // Java garbage, a megabyte a second, as any program makes
            LockSupport.parkNanos(10_000_000);
        }
    }

    private static void inflate() {
        Inflater inflater = new Inflater();
        if (forgets()) {
            forgotten.add(inflater);
        } else {
            inflater.end();
        }
    }

    private static void store() {
        boolean forgets = forgets();
        long bytes = forgets ? size : passing;
        long address = unsafe.allocateMemory(bytes);
        unsafe.setMemory(address, bytes, (byte) 1);
        if (!forgets) {
            unsafe.freeMemory(address);
        }
    }

    /** Whether the next block stays; counts it. */
    private static boolean forgets() {
        boolean forgets = leaked + size <= dueToLeak;
        leaked += forgets ? size : 0;
        taken += forgets ? size : passing;
        return forgets;
    }
}
