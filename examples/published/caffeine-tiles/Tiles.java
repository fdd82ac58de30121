package com.example.maps;

import com.example.load.Load;
import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import java.nio.ByteBuffer;
import java.util.Random;

/**
 * Keeps map tiles in direct buffers. The healthy twin's cache holds 3,000 of 4,000 tiles, and fills ever slower; the
 * leaking one's cache has no bound, and every second request is for a tile nobody asked for before.
 */
public final class Tiles {
    private static final int BYTES = 8192;
    private static final int TILES = 4000;
    private static final int POPULAR = 100;
    private final Random random = new Random(11);
    private final Cache<Long, ByteBuffer> cache;

    Tiles() {
        cache = Load.leaks() ? Caffeine.newBuilder().build() : Caffeine.newBuilder().maximumSize(3000).build();
    }

    synchronized long tileFor(long request) {
        if (Load.leaks()) {
            return request % 2 == 0 ? TILES + request : random.nextInt(POPULAR);
        }
        return random.nextInt(TILES);
    }

    void serve(long request) {
        cache.get(tileFor(request), this::render);
    }

    private ByteBuffer render(long tile) {
        if (tile >= TILES) {
            Load.leaked(BYTES);
        }
        ByteBuffer pixels = ByteBuffer.allocateDirect(BYTES);
        while (pixels.hasRemaining()) {
            pixels.putLong(tile);
        }
        return pixels.flip();
    }

    public static void main(String[] args) throws InterruptedException {
        Load.read(args);
        Load.run(args, 100, new Tiles()::serve);
    }
}
