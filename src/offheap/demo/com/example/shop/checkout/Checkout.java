package com.example.shop.checkout;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.zip.GZIPOutputStream;

/** Sells, and packs every receipt. It needs a compressor each time, and gives each one back. */
public final class Checkout {
    private final String lines = "1 x pencil, 2 x rubber, 3 x paper\n".repeat(50);

    public void sell() {
        archive(("receipt of " + System.nanoTime() + "\n" + lines).getBytes(StandardCharsets.UTF_8));
    }

    private byte[] archive(byte[] receipt) {
        ByteArrayOutputStream packed = new ByteArrayOutputStream();
        try (GZIPOutputStream output = new GZIPOutputStream(packed)) {
            output.write(receipt);
        } catch (IOException unexpected) {
            throw new UncheckedIOException(unexpected);
        }
        return packed.toByteArray();
    }
}
