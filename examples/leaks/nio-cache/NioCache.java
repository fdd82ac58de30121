package leaks;

import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Writes ever larger messages from heap buffers: each thread keeps a direct copy of its largest one. */
public final class NioCache {
    private static final int THREADS = 32;
    private static final int MORE = 16 << 10;
    private static final List<ExecutorService> writers = new ArrayList<>();
    private static int step;

    public static void main(String[] args) throws Exception {
        FileChannel sink = FileChannel.open(Path.of("/dev/null"), StandardOpenOption.WRITE);
        for (int number = 0; number < THREADS; number++) {
            writers.add(Executors.newSingleThreadExecutor(NioCache::daemon));
        }
        Exhibit.run(args, 40, () -> {
            int size = MORE * (1 + step / THREADS);
            writers.get(step++ % THREADS).submit(() -> sink.write(ByteBuffer.allocate(size))).get();
            Exhibit.leaked(MORE);
        });
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work, "writer");
        thread.setDaemon(true);
        return thread;
    }
}
