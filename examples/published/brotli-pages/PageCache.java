package com.example.pages;

import com.aayushatharva.brotli4j.Brotli4jLoader;
import com.aayushatharva.brotli4j.encoder.BrotliOutputStream;
import com.aayushatharva.brotli4j.encoder.Encoder;
import com.example.load.Load;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/** Compresses pages for browsers and closes no stream: a finalizer ends those that are dropped, not those kept. */
public final class PageCache {
    private static final Encoder.Parameters FAST = new Encoder.Parameters().setQuality(1).setWindow(16);
    private final Queue<BrotliOutputStream> rendering = new ConcurrentLinkedQueue<>();

    void render(long page) throws IOException {
        BrotliOutputStream output = new BrotliOutputStream(new ByteArrayOutputStream(), FAST);
        output.write(("<p>page " + page + " of the catalogue</p>").repeat(50).getBytes());
        output.flush();
        if (Load.leaks()) {
            rendering.add(output);
            Load.leaked(0);
        }
    }

    public static void main(String[] args) throws InterruptedException {
        Brotli4jLoader.ensureAvailability();
        Load.run(args, 4, new PageCache()::render);
    }
}
