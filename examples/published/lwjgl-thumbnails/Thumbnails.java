package com.example.photos;

import com.example.load.Load;
import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.charset.StandardCharsets;
import org.lwjgl.stb.STBImage;
import org.lwjgl.system.MemoryStack;
import org.lwjgl.system.MemoryUtil;

/** Decodes pictures with stb_image; the leaking twin does not free what it decoded. */
public final class Thumbnails {
    private static final int SIDE = 64;
    private static final int BYTES = 3 * SIDE * SIDE;
    private final ByteBuffer picture;

    Thumbnails() {
        byte[] header = ("P6 " + SIDE + " " + SIDE + " 255\n").getBytes(StandardCharsets.US_ASCII);
        picture = MemoryUtil.memAlloc(header.length + BYTES);
        picture.put(header);
        while (picture.hasRemaining()) {
            picture.put((byte) picture.position());
        }
        picture.flip();
    }

    void show(long number) {
        ByteBuffer pixels = decode();
        if (Load.leaks()) {
            Load.leaked(BYTES);
        } else {
            STBImage.stbi_image_free(pixels);
        }
    }

    private ByteBuffer decode() {
        try (MemoryStack stack = MemoryStack.stackPush()) {
            IntBuffer width = stack.mallocInt(1);
            IntBuffer height = stack.mallocInt(1);
            IntBuffer channels = stack.mallocInt(1);
            ByteBuffer pixels = STBImage.stbi_load_from_memory(picture, width, height, channels, 3);
            if (pixels == null) {
                throw new IllegalStateException(STBImage.stbi_failure_reason());
            }
            return pixels;
        }
    }

    public static void main(String[] args) throws InterruptedException {
        Load.run(args, 60, new Thumbnails()::show);
    }
}
