package leaks;

import java.nio.ByteBuffer;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32;
import java.util.zip.Deflater;

/** Healthy: pools of threads come and go, each thread with native memory of its own while it lasts. */
public final class ThreadPools {
    public static void main(String[] args) throws Exception {
        Exhibit.run(args, 10, ThreadPools::serveBatch);
    }

    private static void serveBatch() throws InterruptedException {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        for (int task = 0; task < 8; task++) {
            pool.execute(ThreadPools::serve);
        }
        pool.shutdown();
        pool.awaitTermination(10, TimeUnit.SECONDS);
    }

    private static void serve() {
        Deflater deflater = new Deflater();
        deflater.setInput(new byte[10_000]);
        deflater.finish();
        byte[] packed = new byte[20_000];
        int length = deflater.deflate(packed);
        deflater.end();
        CRC32 checksum = new CRC32();
        checksum.update(ByteBuffer.wrap(packed, 0, length));
    }
}
