package com.example.blocks;

import com.example.load.Load;
import io.airlift.compress.v3.zstd.ZstdNativeCompressor;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * Compresses blocks by zstd through foreign functions. A collection frees a dropped compressor's native context; the
 * leaking twin keeps the compressors.
 */
public final class Blocks {
    private final Queue<ZstdNativeCompressor> shards = new ConcurrentLinkedQueue<>();
    private volatile int length;

    void pack(long block) {
        byte[] data = ("block " + block + ", ").repeat(200).getBytes();
        ZstdNativeCompressor compressor = new ZstdNativeCompressor();
        byte[] packed = new byte[compressor.maxCompressedLength(data.length)];
        length = compressor.compress(data, 0, data.length, packed, 0, packed.length);
        if (Load.leaks()) {
            shards.add(compressor);
            Load.leaked(0);
        }
    }

    public static void main(String[] args) throws InterruptedException {
        Load.run(args, 4, new Blocks()::pack);
    }
}
