package leaks;

import java.util.ArrayDeque;
import java.util.Deque;

/** Healthy: sessions come at a steady rate and expire three seconds later, when they are old to the collector. */
public final class Sessions {
    private static final int LENGTH = 20_000;
    private static final long LIFE_NANOS = 3_000_000_000L;
    private static final Deque<Session> sessions = new ArrayDeque<>();
    private static final Held held = new Held("leaks.Sessions.open", "byte[]");

    private static final class Session {
        final long begin = System.nanoTime();
        final byte[] state;

        Session(byte[] state) {
            this.state = state;
        }
    }

    public static void main(String[] args) throws Exception {
        Exhibit.run(
                args,
                100,
                () -> {
                    open();
                    expire();
                    Collections.nowAndThen();
                });
    }

    private static void open() {
        byte[] state = new byte[LENGTH];
        sessions.add(new Session(state));
        held.add(state);
    }

    private static void expire() {
        while (System.nanoTime() - sessions.peek().begin > LIFE_NANOS) {
            held.remove(sessions.remove().state);
        }
    }
}
