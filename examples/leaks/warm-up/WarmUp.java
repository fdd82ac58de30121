package leaks;

import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;

/** A fresh server: its caches take what is asked for often, ever less of it new; then it stays as it is. */
public final class WarmUp {
    private static final int KEYS = 2000;
    private static final Random random = new Random(4711);
    private static final Map<Integer, ByteBuffer> direct = new HashMap<>();
    private static final Map<Integer, byte[]> heap = new HashMap<>();

    public static void main(String[] args) throws Exception {
        Exhibit.run(args, 400, () -> {
            int key = random.nextInt(KEYS);
            heap.computeIfAbsent(key, number -> new byte[10_000]);
            direct.computeIfAbsent(key, WarmUp::load);
        });
    }

    private static ByteBuffer load(int key) {
        ByteBuffer loaded = ByteBuffer.allocateDirect(20_000);
        while (loaded.hasRemaining()) {
            loaded.put((byte) key);
        }
        return loaded;
    }
}
