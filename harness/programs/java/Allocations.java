import java.io.File;
import java.io.RandomAccessFile;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.Inflater;
import sun.misc.Unsafe;

/**
 * Native memory by four ways, each kept, each from a method of its own. Argument: how often.
 *
 * <p>-Dwait=true: only after a line on stdin, and again before the end. -Dvirtual=true: on a virtual thread.
 */
public class Allocations {
    static final List<Object> kept = new ArrayList<>();

    static void inflater() {
        kept.add(new Inflater());
    }

    static void unsafe(Unsafe unsafe) {
        kept.add(unsafe.allocateMemory(4_001));
    }

    static void direct() {
        kept.add(ByteBuffer.allocateDirect(3_001));
    }

    static void mapped(FileChannel channel) throws Exception {
        kept.add(channel.map(FileChannel.MapMode.READ_ONLY, 0, 70_000));
    }

    static void all(Unsafe unsafe, FileChannel channel, int times) throws Exception {
        for (int i = 0; i < times; i++) {
            inflater();
            unsafe(unsafe);
            direct();
            mapped(channel);
        }
    }

    static Thread start(Runnable work) throws Exception {
        if (Boolean.getBoolean("virtual")) {
            return (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, work);
        }
        Thread thread = new Thread(work, "allocating thread with a long name");
        thread.start();
        return thread;
    }

    public static void main(String[] args) throws Exception {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        Unsafe unsafe = (Unsafe) field.get(null);
        File file = File.createTempFile("allocations", null);
        try (RandomAccessFile access = new RandomAccessFile(file, "rw")) {
            file.delete(); // here, since some tests kill this JVM
            access.setLength(70_000);
            if (Boolean.getBoolean("wait")) {
                System.out.println("ready");
                System.in.read();
            }
            Thread thread = start(() -> {
                try {
                    all(unsafe, access.getChannel(), Integer.parseInt(args[0]));
                } catch (Exception error) {
                    throw new RuntimeException(error);
                }
            });
            thread.join();
            System.out.println("done");
            if (Boolean.getBoolean("wait")) System.in.read();
        }
    }
}
