package leaks;

import java.util.concurrent.locks.LockSupport;

/** Starts a thread for each mail and lets it wait for ever. */
public final class Threads {
    private static int started;

    public static void main(String[] args) throws Exception {
        Exhibit.run(args, 4, () -> {
            Thread thread = new Thread(Threads::waitForAnswer, "mailer-" + started++);
            thread.setDaemon(true);
            thread.start();
            Exhibit.leaked(0);
        });
    }

    private static void waitForAnswer() {
        while (true) {
            LockSupport.park();
        }
    }
}
