import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.zip.Deflater;
import java.util.zip.Inflater;
import sun.misc.Unsafe;

/**
 * Allocates and frees native memory in one thread: {@code Churn WORKLOAD WARM_UP_SECONDS SECONDS}.
 *
 * <p>Prints "warm" and waits for a line before it measures, prints how many iterations it did and waits for
 * another before it ends: whoever started it reads the process's CPU clock in between.
 */
public final class Churn {
    private static final byte[] TEXT = new byte[8192];
    private static final byte[] PACKED = new byte[16384];

    private interface Work {
        void once() throws Exception;
    }

    private Churn() {}

    public static void main(String[] words) throws Exception {
        for (int i = 0; i < TEXT.length; i++) {
            TEXT[i] = (byte) ("the quick brown fox ".charAt(i % 20) + (i * 31 >> 8 & 3));
        }
        Work work = work(words[0]);
        repeat(work, Double.parseDouble(words[1]));
        System.out.println("warm");
        System.in.read();
        System.out.println(repeat(work, Double.parseDouble(words[2])));
        System.in.read();
    }

    private static long repeat(Work work, double seconds) throws Exception {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        long iterations = 0;
        do {
            for (int i = 0; i < 16; i++) {
                work.once();
            }
            iterations += 16;
        } while (System.nanoTime() < end);
        return iterations;
    }

    private static Work work(String name) throws Exception {
        switch (name) {
            case "zip":
                return Churn::createAndEnd;
            case "zip8k":
                return Churn::packAndUnpack;
            case "direct":
                return () -> {
                    ByteBuffer buffer = ByteBuffer.allocateDirect(1024);
                    buffer.putInt(0, 1);
                };
            case "unsafe":
                Field field = Unsafe.class.getDeclaredField("theUnsafe");
                field.setAccessible(true);
                Unsafe unsafe = (Unsafe) field.get(null);
                return () -> unsafe.freeMemory(unsafe.allocateMemory(64));
            default:
                throw new IOException("no workload " + name);
        }
    }

    private static void createAndEnd() {
        new Deflater().end();
        new Inflater().end();
    }

    private static void packAndUnpack() throws Exception {
        Deflater deflater = new Deflater();
        deflater.setInput(TEXT);
        deflater.finish();
        int length = deflater.deflate(PACKED);
        deflater.end();
        Inflater inflater = new Inflater();
        inflater.setInput(PACKED, 0, length);
        byte[] unpacked = new byte[TEXT.length];
        inflater.inflate(unpacked);
        inflater.end();
    }
}
