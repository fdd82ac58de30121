package leaks;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.zip.Deflater;

/** Healthy: a cache of compressors fills to its capacity, then replaces the eldest, whose memory is freed. */
public final class Cache {
    private static final int CAPACITY = 40;

    private static final Map<Integer, Deflater> cache =
            new LinkedHashMap<>() {
                @Override
                protected boolean removeEldestEntry(Map.Entry<Integer, Deflater> eldest) {
                    boolean full = size() > CAPACITY;
                    if (full) {
                        eldest.getValue().end();
                    }
                    return full;
                }
            };
    private static int key;

    public static void main(String[] args) throws Exception {
        Exhibit.run(args, 100, Cache::lookUp);
    }

    private static void lookUp() {
        cache.computeIfAbsent(key++, Cache::load);
    }

    private static Deflater load(int key) {
        return new Deflater();
    }
}
