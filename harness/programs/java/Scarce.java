import java.io.FileInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.zip.Deflater;

/**
 * Uses up what there is of something, says how many blocks of native memory it holds then, and lives on.
 *
 * Argument: addresses (malloc refuses), descriptors (open refuses), or how many MiB to hold and touch.  Waits for a
 * line when it is "ready", and again when all is used up.
 */
public class Scarce {
    static final int MIB = 1 << 20;
    static final List<ByteBuffer> held = new ArrayList<>();

    /** All that malloc gives, until it has refused a thousand times. */
    static void addresses() {
        for (int refused = 0; refused < 1000; ) {
            try {
                held.add(ByteBuffer.allocateDirect(MIB));
            } catch (OutOfMemoryError none) {
                refused++;
            }
        }
    }

    /** 6,000 buffers of 5,000 bytes, by threads that start only now. */
    static List<FileInputStream> descriptors() throws InterruptedException {
        List<FileInputStream> open = new ArrayList<>();
        try {
            while (true) open.add(new FileInputStream("/dev/null"));
        } catch (IOException none) {
            // that is the point
        }
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            Thread thread = new Thread(() -> {
                for (int n = 0; n < 2000; n++) {
                    ByteBuffer buffer = ByteBuffer.allocateDirect(5000);
                    synchronized (held) {
                        held.add(buffer);
                    }
                }
            }, "holder-" + i);
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) thread.join();
        return open;
    }

    static void memory(int count) {
        for (int i = 0; i < count; i++) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(MIB);
            for (int at = 0; at < MIB; at += 4096) buffer.put(at, (byte) 1);
            held.add(buffer);
        }
    }

    /** Native memory that comes and goes, in threads of its own: how many of them ended as they should. */
    static int work() throws InterruptedException {
        AtomicInteger done = new AtomicInteger();
        for (int round = 0; round < 10; round++) {
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                Thread thread = new Thread(() -> {
                    for (int n = 0; n < 5; n++) {
                        Deflater deflater = new Deflater();
                        deflater.setInput(new byte[5000]);
                        deflater.finish();
                        deflater.deflate(new byte[5000]);
                        deflater.end();
                    }
                    done.incrementAndGet();
                }, "worker");
                threads.add(thread);
                thread.start();
            }
            for (Thread thread : threads) thread.join();
        }
        return done.get();
    }

    public static void main(String[] arguments) throws Exception {
        int before = work(); // loads the libraries and classes that are wanted later
        System.out.println("ready");
        System.in.read();
        List<FileInputStream> open = List.of();
        if (arguments[0].equals("addresses")) addresses();
        else if (arguments[0].equals("descriptors")) open = descriptors();
        else memory(Integer.parseInt(arguments[0]));
        System.out.println("held " + held.size());
        System.in.read();
        System.out.println("worked " + before + " " + work());
        for (FileInputStream one : open) one.close();
    }
}
