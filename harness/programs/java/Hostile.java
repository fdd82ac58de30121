import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** Leaks direct buffers under the names it is given. Its class, its method leak and its source file get theirs
    in the compiled file: javac takes none that is hostile. */
public class Hostile implements Runnable {
    private static final List<ByteBuffer> kept = Collections.synchronizedList(new ArrayList<>());

    static void leak() {
        kept.add(ByteBuffer.allocateDirect(8 << 10));
    }

    @Override
    public void run() {
        try {
            while (true) {
                leak();
                Thread.sleep(4);
            }
        } catch (InterruptedException error) {
            // the end
        }
    }

    /** Overwrites the version that the JVM publishes for jps, jstat and offheap: its file is ours to write. */
    static void claimVersion(String claimed) throws Exception {
        String file = "/tmp/hsperfdata_" + System.getProperty("user.name") + "/" + ProcessHandle.current().pid();
        String content = new String(Files.readAllBytes(Path.of(file)), StandardCharsets.ISO_8859_1);
        String version = System.getProperty("java.version");
        int at = content.indexOf(version, content.indexOf("java.property.java.version"));
        try (RandomAccessFile published = new RandomAccessFile(file, "rw")) {
            published.seek(at);
            published.write(Arrays.copyOf(claimed.getBytes(StandardCharsets.UTF_8), version.length()));
        }
    }

    static void park() {
        try {
            Thread.sleep(Long.MAX_VALUE);
        } catch (InterruptedException error) {
            // the end
        }
    }

    static void start(Runnable work, String name) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    /** Arguments: a file to map, the name of the process, the Java version, and of threads: one that does
        nothing, and those that leak. */
    public static void main(String[] args) throws Exception {
        MappedByteBuffer mapped;
        try (FileChannel file = FileChannel.open(Path.of(args[0]))) {
            mapped = file.map(FileChannel.MapMode.READ_ONLY, 0, file.size()).load();
        }
        Files.write(Path.of("/proc/self/comm"), args[1].getBytes(StandardCharsets.UTF_8));
        claimVersion(args[2]);
        start(Hostile::park, args[3]);
        for (int i = 4; i < args.length; i++) {
            start(new Hostile(), args[i]);
        }
        System.out.println("ready");
        while (System.in.read() >= 0) {
            mapped.get(0);
        }
    }
}
