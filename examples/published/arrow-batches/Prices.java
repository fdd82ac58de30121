package com.example.prices;

import com.example.load.Load;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;

/** Sums batches of prices in Arrow's buffers; the leaking twin does not close those of rejected batches. */
public final class Prices {
    private static final int PRICES = 2048;
    private final BufferAllocator allocator = new RootAllocator();
    private volatile long total;

    void importBatch(long number) {
        ArrowBuf batch = read(number);
        long sum = 0;
        for (int i = 0; i < PRICES; i++) {
            sum += batch.getInt(4L * i);
        }
        total = sum;
        if (Load.leaks()) {
            Load.leaked(4 * PRICES);
        } else {
            batch.close();
        }
    }

    private ArrowBuf read(long number) {
        ArrowBuf batch = allocator.buffer(4 * PRICES);
        for (int i = 0; i < PRICES; i++) {
            batch.setInt(4L * i, (int) number + i);
        }
        return batch;
    }

    public static void main(String[] args) throws InterruptedException {
        Load.run(args, 60, new Prices()::importBatch);
    }
}
