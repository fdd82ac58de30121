package com.example.orders;

import com.example.load.Load;
import com.github.luben.zstd.ZstdOutputStream;
import com.github.luben.zstd.ZstdOutputStreamNoFinalizer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;

/**
 * Compresses each order into the archive and closes no stream: a finalizer frees what the healthy twin drops, and the
 * leaking one takes the class without a finalizer.
 */
public final class OrderArchive {
    private static final int LEVEL = 1;

    void archive(long order) throws IOException {
        ByteArrayOutputStream packed = new ByteArrayOutputStream();
        OutputStream output = compressor(packed);
        output.write(("order " + order + ": two of these, one of those\n").repeat(20).getBytes());
        output.flush();
    }

    private OutputStream compressor(OutputStream sink) throws IOException {
        if (Load.leaks()) {
            Load.leaked(0);
            return new ZstdOutputStreamNoFinalizer(sink, LEVEL);
        }
        return new ZstdOutputStream(sink, LEVEL);
    }

    public static void main(String[] args) throws InterruptedException {
        Load.run(args, 1, new OrderArchive()::archive);
    }
}
