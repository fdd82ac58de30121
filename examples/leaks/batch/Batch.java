package leaks;

import java.util.ArrayList;
import java.util.List;

/** Healthy: a batch job reads for three seconds, writes what it has, and begins anew: a saw-tooth. */
public final class Batch {
    private static final int LENGTH = 20_000;
    private static final long BATCH_NANOS = 3_000_000_000L;
    private static final List<byte[]> rows = new ArrayList<>();
    private static final Held held = new Held("leaks.Batch.read", "byte[]");
    private static long begin = System.nanoTime();

    public static void main(String[] args) throws Exception {
        Exhibit.run(
                args,
                100,
                () -> {
                    read();
                    if (System.nanoTime() - begin > BATCH_NANOS) {
                        write();
                    }
                    Collections.nowAndThen();
                });
    }

    private static void read() {
        byte[] row = new byte[LENGTH];
        rows.add(row);
        held.add(row);
    }

    private static void write() {
        rows.forEach(held::remove);
        rows.clear();
        begin = System.nanoTime();
    }
}
