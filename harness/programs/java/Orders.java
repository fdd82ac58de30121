import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/**
 * A service of which two builds are made: in one, `KEEPS` is true and each eighth order's Inflater stays, unended.
 *
 * <p>Arguments: seconds.  Prints "pid N", "ready", and at the end "kept N".
 */
public class Orders {
    static final boolean KEEPS = false; // replaced before it is compiled

    private static final List<Inflater> kept = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        long end = System.nanoTime() + (long) (Double.parseDouble(arguments[0]) * 1e9);
        System.out.println("pid " + ProcessHandle.current().pid());
        System.out.println("ready");
        byte[] order = new byte[4000];
        for (long number = 0; System.nanoTime() < end; number++) {
            take(order, number);
            LockSupport.parkNanos(4_000_000);
        }
        System.out.println("kept " + kept.size());
    }

    static void take(byte[] order, long number) throws Exception {
        Deflater deflater = new Deflater(1);
        deflater.setInput(order);
        deflater.finish();
        byte[] small = new byte[4000];
        int length = deflater.deflate(small);
        deflater.end();
        Inflater inflater = new Inflater();
        inflater.setInput(small, 0, length);
        inflater.inflate(order);
        if (KEEPS && number % 8 == 0) {
            kept.add(inflater);
        } else {
            inflater.end();
        }
    }
}
