import java.io.File;
import java.io.RandomAccessFile;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.Inflater;
import sun.misc.Unsafe;

/** Native memory by four ways, each kept, each from a method of its own. Arguments: how often, then whether to wait. */
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

    public static void main(String[] args) throws Exception {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        Unsafe unsafe = (Unsafe) field.get(null);
        File file = File.createTempFile("allocations", null);
        file.deleteOnExit();
        try (RandomAccessFile access = new RandomAccessFile(file, "rw")) {
            access.setLength(70_000);
            boolean attached = args.length > 1;
            if (attached) {
                System.out.println("ready");
                System.in.read();
            }
            Thread thread = new Thread(() -> {
                try {
                    all(unsafe, access.getChannel(), Integer.parseInt(args[0]));
                } catch (Exception error) {
                    throw new RuntimeException(error);
                }
            }, "allocating thread with a long name");
            thread.start();
            thread.join();
            System.out.println("done");
            if (attached) System.in.read();
        }
    }
}
