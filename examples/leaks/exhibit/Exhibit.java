package leaks;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * The frame around every program of the zoo: it repeats one step at a steady rate and states the truth.
 *
 * <p>Arguments: steps per second, and seconds (0: until told). It prints "pid N" and "ready", once a second
 * and at the end "truth BLOCKS BYTES", by the program's own count. On standard input "stop" ends the steps
 * and answers "stopped BLOCKS BYTES", final, while the process stays to be inspected; "collect" collects the whole
 * Java heap and answers "collected BYTES", the heap in use; "exit" ends it. Before each count come the lines of {@link
 * Held}.
 */
final class Exhibit {
    interface Step {
        void take() throws Exception;
    }

    private static final AtomicLong blocks = new AtomicLong();
    private static final AtomicLong bytes = new AtomicLong();
    private static volatile boolean stepping = true;
    private static volatile byte[] scratch;

    private Exhibit() {}

    static void leaked(long size) {
        blocks.incrementAndGet();
        bytes.addAndGet(size);
    }

    static void run(String[] args, double defaultRate, Step step) throws Exception {
        double rate = args.length > 0 ? Double.parseDouble(args[0]) : defaultRate;
        double seconds = args.length > 1 ? Double.parseDouble(args[1]) : 0;
        Thread listener = new Thread(Exhibit::listen, "listener");
        listener.setDaemon(true);
        listener.start();
        System.out.println("pid " + ProcessHandle.current().pid());
        System.out.println("ready");

        long start = System.nanoTime();
        long end = seconds > 0 ? start + (long) (seconds * 1e9) : Long.MAX_VALUE;
        long nextTruth = start + 1_000_000_000L;
        for (long steps = 0; System.nanoTime() < end; steps++) {
            if (!stepping) {
                tell("stopped");
                Thread.currentThread().join();
            }
            step.take();
            // Java garbage, a megabyte a second: no program is without, and what only waits for a collection tells.
            scratch = new byte[(int) Math.min(1e6 / rate, 1e5)];
            long due = start + (long) (steps * 1e9 / rate);
            if (System.nanoTime() > nextTruth) {
                tell("truth");
                nextTruth += 1_000_000_000L;
            }
            LockSupport.parkNanos(due - System.nanoTime());
        }
        tell("truth");
        System.exit(0);
    }

    private static void tell(String when) {
        Held.tell();
        System.out.println(when + " " + blocks + " " + bytes);
    }

    private static void collect() {
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        long used = runtime.totalMemory() - runtime.freeMemory();
        Held.tell();
        System.out.println("collected " + used);
    }

    private static void listen() {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                if (line.equals("stop")) {
                    stepping = false;
                } else if (line.equals("collect")) {
                    collect();
                } else if (line.equals("exit")) {
                    System.exit(0);
                }
            }
        } catch (IOException gone) {
            // Without a standard input the program runs until its seconds are over.
        }
    }
}
