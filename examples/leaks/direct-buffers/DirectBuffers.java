package leaks;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** Direct buffers that go into a "pool" nobody takes them out of. */
public final class DirectBuffers {
    private static final int SIZE = 64 * 1024;
    private static final List<ByteBuffer> pool = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        Exhibit.run(args, 50, DirectBuffers::sendMessage);
    }

    private static void sendMessage() {
        ByteBuffer message = takeBuffer();
        message.putLong(System.nanoTime());
        pool.add(message);
    }

    private static ByteBuffer takeBuffer() {
        ByteBuffer buffer = ByteBuffer.allocateDirect(SIZE);
        Exhibit.leaked(SIZE);
        return buffer;
    }
}
