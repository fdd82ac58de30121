import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** Direct buffers: half of them kept, half of them dropped and left to a collection that does not come. */
public final class Buffers {
    private static final List<ByteBuffer> pool = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        System.out.println("ready");
        while (System.in.available() == 0) {
            keep();
            drop();
            Thread.sleep(5);
        }
    }

    private static void keep() {
        pool.add(ByteBuffer.allocateDirect(32 * 1024));
    }

    private static void drop() {
        ByteBuffer.allocateDirect(32 * 1024);
    }
}
