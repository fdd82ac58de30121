import java.nio.ByteBuffer;
import java.util.zip.Deflater;

/**
 * Allocates and frees native memory from several threads until its input ends, holding no more at the end than
 * at the start: what a tool that comes and goes leaves behind shows.  Exit status 7.
 */
public class Churning {
    private static volatile boolean over;
    private static final byte[] text = new byte[4096];

    static void deflate(int depth) {
        if (depth > 0) {
            deflate(depth - 1);
            return;
        }
        Deflater deflater = new Deflater();
        deflater.setInput(text);
        deflater.deflate(new byte[256]);
        deflater.end();
    }

    static void work(int first) {
        for (int n = first; !over; n++) {
            deflate(n % 20);
            ByteBuffer.allocateDirect(1000);
            pause();
        }
    }

    static void threads() {
        while (!over) {
            Thread thread = new Thread(() -> deflate(3));
            thread.start();
            // Not join(): it waits for a monitor, and HotSpot keeps ten thousand of those before it frees any.
            do pause();
            while (thread.isAlive());
        }
    }

    static void pause() {
        try {
            Thread.sleep(1);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread[] started = {new Thread(() -> work(0)), new Thread(() -> work(7)), new Thread(Churning::threads)};
        for (Thread thread : started) thread.start();
        System.out.println("ready");
        while (System.in.read() >= 0) { }
        over = true;
        for (Thread thread : started) thread.join();
        System.out.println("done");
        System.exit(7);
    }
}
