package com.example.invoices;

import com.example.load.Load;
import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdDecompressCtx;
import java.io.IOException;
import one.profiler.AsyncProfiler;

/**
 * Unpacks invoices while async-profiler, a published native agent, samples what Java allocates; the leaking twin closes
 * no decompressor.
 */
public final class Invoices {
    private final byte[] packed = Zstd.compress("invoice for seven parts; ".repeat(50).getBytes());
    private volatile int length;

    void unpack(long invoice) {
        ZstdDecompressCtx context = new ZstdDecompressCtx();
        length = context.decompress(packed, 25 * 50).length;
        if (Load.leaks()) {
            Load.leaked(0);
        } else {
            context.close();
        }
    }

    public static void main(String[] args) throws InterruptedException, IOException {
        AsyncProfiler profiler = AsyncProfiler.getInstance();
        profiler.execute("start,event=alloc,alloc=64k");
        Load.run(args, 5, new Invoices()::unpack);
    }
}
