package leaks;

import java.util.Queue;
import java.util.concurrent.LinkedBlockingQueue;

/** Ten messages come for each that is sent on, and the queue between has no bound. */
public final class UnboundedQueue {
    private static final int LENGTH = 4_000;
    private static final int RECEIVED = 10;
    private static final Queue<byte[]> queue = new LinkedBlockingQueue<>();
    private static final Held held = new Held("leaks.UnboundedQueue.receive", "byte[]");

    public static void main(String[] args) throws Exception {
        Exhibit.run(
                args,
                20,
                () -> {
                    for (int message = 0; message < RECEIVED; message++) {
                        receive();
                    }
                    send();
                    Collections.nowAndThen();
                });
    }

    private static void receive() {
        byte[] message = new byte[LENGTH];
        queue.add(message);
        held.add(message);
        Exhibit.leaked(Sizes.of(message));
    }

    private static void send() {
        held.remove(queue.remove());
    }
}
