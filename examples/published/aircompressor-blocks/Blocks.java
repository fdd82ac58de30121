package com.example.blocks;

import com.example.load.Load;
import io.airlift.compress.v3.lz4.Lz4NativeCompressor;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * Compresses blocks by LZ4 through foreign functions. A collection frees the native state of a dropped compressor; the
 * leaking twin keeps the compressors.
 */
public final class Blocks {
    private final Queue<Lz4NativeCompressor> shards = new ConcurrentLinkedQueue<>();
    private volatile int length;

    void pack(long block) {
        byte[] data = ("block " + block + ", ").repeat(200).getBytes();
        Lz4NativeCompressor compressor = new Lz4NativeCompressor();
        byte[] packed = new byte[compressor.maxCompressedLength(data.length)];
        length = compressor.compress(data, 0, data.length, packed, 0, packed.length);
        if (Load.leaks()) {
            shards.add(compressor);
            Load.leaked(0);
        }
    }

    public static void main(String[] args) throws InterruptedException {
        Load.run(args, 30, new Blocks()::pack);
    }
}
