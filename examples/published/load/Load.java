package com.example.load;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * The load around every program here: requests at a steady rate, handled by a pool of two threads.
 *
 * <p>Arguments: `leak` or `healthy`, and requests per second. It prints "pid N" and "ready", and once a second
 * "truth OBJECTS BYTES": what the program has leaked by its own count, bytes being 0 where only the library knows
 * the size of its objects. On standard input "stop" ends the requests and answers "stopped OBJECTS BYTES", final,
 * while the process stays to be looked at; "exit" ends it.
 *
 * <p>-Dgarbage=N is how many bytes of Java garbage a second the load makes: every busy program collects.
 */
public final class Load {
    /** What the program does for one request. */
    public interface Request {
        void handle(long number) throws Exception;
    }

    private static final int THREADS = 2;
    private static final int MOST_WAITING = 100;
    private static final double GARBAGE = Double.parseDouble(System.getProperty("garbage", "10e6"));
    private static final AtomicLong objects = new AtomicLong();
    private static final AtomicLong bytes = new AtomicLong();
    private static final AtomicInteger waiting = new AtomicInteger();
    private static volatile boolean running = true;
    private static volatile byte[] scratch;
    private static boolean leaking;

    private Load() {}

    /** Whether this is the leaking twin. Call `run` or `read` first. */
    public static boolean leaks() {
        return leaking;
    }

    /** Counts one object that is never freed. */
    public static void leaked(long size) {
        objects.incrementAndGet();
        bytes.addAndGet(size);
    }

    /** Reads which twin is asked for; for programs that must know before they set up. */
    public static void read(String[] args) {
        if (args.length < 1 || !(args[0].equals("leak") || args[0].equals("healthy"))) {
            System.err.println("arguments: leak|healthy [requests per second]");
            System.exit(2);
        }
        leaking = args[0].equals("leak");
    }

    public static void run(String[] args, double defaultRate, Request request) throws InterruptedException {
        read(args);
        double rate = args.length > 1 ? Double.parseDouble(args[1]) : defaultRate;
        Thread listener = new Thread(Load::listen, "listener");
        listener.setDaemon(true);
        listener.start();
        AtomicInteger threads = new AtomicInteger();
        ExecutorService pool =
                Executors.newFixedThreadPool(THREADS, task -> new Thread(task, "worker-" + threads.incrementAndGet()));
        System.out.println("pid " + ProcessHandle.current().pid());
        System.out.println("ready");

        long start = System.nanoTime();
        long nextTruth = start + 1_000_000_000L;
        for (long number = 0; running; number++) {
            submit(pool, request, number, rate);
            if (System.nanoTime() > nextTruth) {
                tell("truth");
                nextTruth += 1_000_000_000L;
            }
            LockSupport.parkNanos(start + (long) ((number + 1) * 1e9 / rate) - System.nanoTime());
        }
        while (waiting.get() > 0) {
            Thread.sleep(1);
        }
        tell("stopped");
    }

    private static void submit(ExecutorService pool, Request request, long number, double rate) {
        // A busy machine lets requests fall by the wayside, not pile up.
        if (waiting.get() >= MOST_WAITING) {
            return;
        }
        waiting.incrementAndGet();
        pool.execute(
                () -> {
                    try {
                        request.handle(number);
                        scratch = new byte[(int) Math.min(GARBAGE / rate, 1e6)];
                    } catch (Exception | LinkageError error) {
                        error.printStackTrace();
                        System.exit(1);
                    } finally {
                        waiting.decrementAndGet();
                    }
                });
    }

    private static void tell(String when) {
        System.out.println(when + " " + objects + " " + bytes);
    }

    private static void listen() {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                if (line.equals("stop")) {
                    running = false;
                } else if (line.equals("exit")) {
                    System.exit(0);
                }
            }
        } catch (IOException gone) {
            // Without a standard input the program runs until it is killed.
        }
    }
}
