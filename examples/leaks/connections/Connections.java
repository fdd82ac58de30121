package leaks;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** Nobody closes the connections: the heap keeps their objects, and each has native memory through its buffer. */
public final class Connections {
    private static final int NATIVE = 16_000;
    private static final int JAVA = 4_000;
    private static final List<Connection> open = new ArrayList<>();
    private static final Held held = new Held("leaks.Connections$Connection.<init>", "byte[]");

    private static final class Connection {
        final ByteBuffer buffer = ByteBuffer.allocateDirect(NATIVE);
        final byte[] header = new byte[JAVA];
    }

    public static void main(String[] args) throws Exception {
        Exhibit.run(
                args,
                100,
                () -> {
                    connect();
                    Collections.nowAndThen();
                });
    }

    private static void connect() {
        Connection connection = new Connection();
        connection.buffer.putLong(0, System.nanoTime());
        open.add(connection);
        held.add(connection.header);
        Exhibit.leaked(NATIVE);
    }
}
