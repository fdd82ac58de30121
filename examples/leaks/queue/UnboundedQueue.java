package leaks;

import java.util.Queue;
import java.util.concurrent.LinkedBlockingQueue;

/** Two messages come for each that is sent on, and the queue between has no bound. */
public final class UnboundedQueue {
    private static final int LENGTH = 4_000;
    private static final Queue<byte[]> queue = new LinkedBlockingQueue<>();
    private static final Held held = new Held("leaks.UnboundedQueue.receive", "byte[]");

    public static void main(String[] args) throws Exception {
        Exhibit.run(
                args,
                200,
                () -> {
                    receive();
                    receive();
                    Exhibit.leaked(Sizes.of(send()));
                    Collections.nowAndThen();
                });
    }

    private static void receive() {
        byte[] message = new byte[LENGTH];
        queue.add(message);
        held.add(message);
    }

    private static byte[] send() {
        byte[] message = queue.remove();
        held.remove(message);
        return message;
    }
}
