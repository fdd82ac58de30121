package leaks;

import java.util.ArrayList;
import java.util.List;

/** Keeps every session, and makes garbage beside it. */
public final class JavaHeap {
    private static final int SIZE = 20_000;
    private static final List<byte[]> sessions = new ArrayList<>();
    private static volatile byte[] garbage;

    public static void main(String[] args) throws Exception {
        Exhibit.run(args, 40, () -> {
            sessions.add(new byte[SIZE]);
            garbage = new byte[8 * SIZE];
            Exhibit.leaked(SIZE);
            Collections.nowAndThen();
        });
    }
}
