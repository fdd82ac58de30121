import java.io.File;
import java.io.RandomAccessFile;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/** Holds a known amount of every kind of memory, says "ready", then waits for the end of its input. */
public class Footprint {
    static final int MIB = 1 << 20;
    static final List<Object> kept = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        File mapped = new File(arguments[0]);
        if (arguments.length > 1) {
            System.in.read(); // a second argument: it grows only when told to
        }
        for (int i = 0; i < 40; i++) {
            kept.add(new byte[MIB]);
        }
        for (int i = 0; i < 24; i++) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(MIB);
            touch(buffer);
            kept.add(buffer);
        }
        try (RandomAccessFile file = new RandomAccessFile(mapped, "rw")) {
            MappedByteBuffer buffer = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, 16 * MIB);
            touch(buffer);
            kept.add(buffer);
        }
        byte[] text = new byte[50_000];
        for (int i = 0; i < text.length; i++) {
            text[i] = (byte) (i * 31 ^ i >> 5);
        }
        byte[] packed = new byte[text.length * 2];
        for (int i = 0; i < 60; i++) {
            Deflater deflater = new Deflater();
            deflater.setInput(text);
            deflater.finish();
            int length = deflater.deflate(packed);
            Inflater inflater = new Inflater();
            inflater.setInput(packed, 0, length);
            inflater.inflate(new byte[text.length]);
            kept.add(deflater);
            kept.add(inflater);
        }
        URL[] urls = {Footprint.class.getProtectionDomain().getCodeSource().getLocation()};
        for (int i = 0; i < 200; i++) {
            URLClassLoader loader = new URLClassLoader(urls, null);
            kept.add(Class.forName("Footprint$Plugin", true, loader).getDeclaredConstructor().newInstance());
        }
        for (int i = 0; i < 12; i++) {
            Thread thread = new Thread(() -> descend(400), "worker-" + i);
            thread.setDaemon(true);
            thread.start();
        }
        Thread spinning = new Thread(Footprint::spin, "spinning");
        spinning.setDaemon(true);
        spinning.start();
        Thread.sleep(300);
        System.out.println("ready");
        while (System.in.read() >= 0) {
            System.out.println("alive");
        }
    }

    static void touch(ByteBuffer buffer) {
        for (int at = 0; at < buffer.capacity(); at += 4096) {
            buffer.put(at, (byte) 1);
        }
    }

    static int descend(int depth) {
        if (depth > 0) {
            return descend(depth - 1) + 1;
        }
        try {
            Thread.sleep(Long.MAX_VALUE);
        } catch (InterruptedException stop) {
            Thread.currentThread().interrupt();
        }
        return 0;
    }

    static volatile long turns;

    /** Never in a system call: the kernel tells nobody where its stack pointer is. */
    static void spin() {
        long end = System.nanoTime() + 600_000_000_000L;
        while (System.nanoTime() < end) {
            turns++;
        }
    }

    public static class Plugin {
        public int value = 1;

        public int twice() {
            return value * 2;
        }
    }
}
