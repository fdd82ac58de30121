import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import sun.misc.Unsafe;

/**
 * Holds objects that three methods allocate, a known number of bytes of each, and collects the whole heap.
 *
 * Argument: a seed of their sizes and order. It prints "pid N", "collected BYTES", the heap in use before it holds
 * anything, a line of JSON for each method, "collected BYTES" again, and "ready"; a line on standard input ends it.
 */
public class HeldObjects {
    static final int MIB = 1 << 20;
    static final List<Object> held = new ArrayList<>();
    static volatile Object dropped;

    /** What one method allocated and is still referred to. */
    static final class Count {
        final String method, type;
        long objects, bytes;

        Count(String method, String type) {
            this.method = method;
            this.type = type;
        }

        void tell() {
            System.out.printf(
                    "{\"method\": \"HeldObjects.%s\", \"class\": \"%s\", \"objects\": %d, \"bytes\": %d}%n",
                    method, type, objects, bytes);
        }
    }

    static long size(Object array) {
        long size = array instanceof long[]
                ? Unsafe.ARRAY_LONG_BASE_OFFSET + 8L * ((long[]) array).length
                : Unsafe.ARRAY_BYTE_BASE_OFFSET + ((byte[]) array).length;
        return (size + 7) / 8 * 8;
    }

    static Object small() {
        return new long[6];
    }

    static Object medium(Random random) {
        return new byte[100 + random.nextInt(2_000)];
    }

    static Object large(Random random) {
        return new byte[10_000 + random.nextInt(60_000)];
    }

    static long collect() {
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }

    public static void main(String[] args) throws Exception {
        System.out.println("pid " + ProcessHandle.current().pid());
        System.out.println("collected " + collect());
        Random random = new Random(Long.parseLong(args[0]));
        Count[] counts = {new Count("small", "long[]"), new Count("medium", "byte[]"), new Count("large", "byte[]")};
        long[] goals = {24 * MIB, 40 * MIB, 40 * MIB};
        // Whole batches of each kind in turn, so that no kind is held by its place in time alone.
        for (boolean more = true; more; ) {
            more = false;
            for (int kind = 0; kind < counts.length; kind++) {
                Count count = counts[kind];
                for (long end = Math.min(count.bytes + MIB, goals[kind]); count.bytes < end; ) {
                    Object made = kind == 0 ? small() : kind == 1 ? medium(random) : large(random);
                    if (random.nextInt(3) > 0) {
                        dropped = made;
                    } else {
                        held.add(made);
                        count.objects++;
                        count.bytes += size(made);
                    }
                }
                more |= count.bytes < goals[kind];
            }
        }
        dropped = null;
        // Clocks of the JVM and of the probe differ a little: what is younger by both did not meet the collection.
        Thread.sleep(500);
        long used = collect();
        for (Count count : counts) {
            count.tell();
        }
        System.out.println("collected " + used);
        System.out.println("ready");
        System.in.read();
        System.exit(0);
    }
}
