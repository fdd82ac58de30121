package leaks;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Random;

/** Healthy: a cache fills to its capacity, then gives up the entry that was used least recently. */
public final class LruCache {
    private static final int CAPACITY = 400;
    private static final int KEYS = 4_000;
    private static final int LENGTH = 20_000;
    private static final Held held = new Held("leaks.LruCache.load", "byte[]");
    private static final Random random = new Random(4711);
    private static final Map<Integer, byte[]> cache =
            new LinkedHashMap<>(16, 0.75f, true) {
                @Override
                protected boolean removeEldestEntry(Map.Entry<Integer, byte[]> eldest) {
                    boolean full = size() > CAPACITY;
                    if (full) {
                        held.remove(eldest.getValue());
                    }
                    return full;
                }
            };

    public static void main(String[] args) throws Exception {
        Exhibit.run(
                args,
                100,
                () -> {
                    get(random.nextInt(KEYS));
                    Collections.nowAndThen();
                });
    }

    private static byte[] get(int key) {
        byte[] value = cache.get(key);
        if (value == null) {
            value = load();
            cache.put(key, value);
        }
        return value;
    }

    private static byte[] load() {
        byte[] value = new byte[LENGTH];
        held.add(value);
        return value;
    }
}
