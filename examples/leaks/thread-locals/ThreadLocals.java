package leaks;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Each request adds to a ThreadLocal and does not remove it at its end; the threads are a pool's and stay. */
public final class ThreadLocals {
    private static final int THREADS = 4;
    private static final int LENGTH = 8_000;
    private static final ThreadLocal<List<byte[]>> attributes = ThreadLocal.withInitial(ArrayList::new);
    private static final Held held = new Held("leaks.ThreadLocals.handleRequest", "byte[]");

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        Exhibit.run(
                args,
                100,
                () -> {
                    pool.submit(ThreadLocals::handleRequest).get();
                    Collections.nowAndThen();
                });
    }

    private static void handleRequest() {
        byte[] attribute = new byte[LENGTH];
        attributes.get().add(attribute);
        held.add(attribute);
        Exhibit.leaked(Sizes.of(attribute));
    }
}
