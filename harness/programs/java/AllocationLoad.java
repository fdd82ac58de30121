import java.lang.management.ManagementFactory;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;

/**
 * A server's heap without the server: requests at a steady rate, each with a megabyte of objects of many sizes. A
 * cache of 100 MB is replaced slowly, and the last requests stay alive for a while.
 *
 * Arguments: requests a second, seconds of warm-up, seconds to measure, and bytes a second to leak (or none). It prints "pid N" and "warm", waits for a
 * line, and prints "measured REQUESTS BEGIN END", the JVM's uptime in milliseconds; another line ends it.
 */
public class AllocationLoad {
    static final int RECENT = 20;
    static final byte[][] cache = new byte[10_000][];
    static final Deque<Node> recent = new ArrayDeque<>();
    static final Random random = new Random(4711);
    static final int LEAK = 1_000;
    static Node leaked;

    /** 24 to 32 bytes. */
    static final class Node {
        final Node next;
        final byte[] value;

        Node(Node next, byte[] value) {
            this.next = next;
            this.value = value;
        }
    }

    /** 3,000 nodes with short values, 300 of one kilobyte, eight of 64 KB. */
    static Node handle() {
        Node last = null;
        for (int i = 0; i < 3_000; i++) last = new Node(last, new byte[16 + i % 32]);
        Node parsed = null;
        for (int i = 0; i < 300; i++) parsed = new Node(parsed, new byte[1_000]);
        for (int i = 0; i < 8; i++) parsed = new Node(parsed, new byte[65_000]);
        cache[random.nextInt(cache.length)] = new byte[10_000];
        return last;
    }

    static void leak() {
        leaked = new Node(leaked, new byte[LEAK]);
    }

    static long run(double rate, double seconds, double leak) {
        long start = System.nanoTime(), end = start + (long) (seconds * 1e9), requests = 0, leaks = 0;
        while (System.nanoTime() < end) {
            recent.add(handle());
            if (recent.size() > RECENT) recent.remove();
            requests++;
            // As many as are due by now.
            for (; leaks * LEAK < requests * leak / rate; leaks++) leak();
            LockSupport.parkNanos(start + (long) (requests * 1e9 / rate) - System.nanoTime());
        }
        return requests;
    }

    static long uptime() {
        return ManagementFactory.getRuntimeMXBean().getUptime();
    }

    public static void main(String[] args) throws Exception {
        double rate = Double.parseDouble(args[0]);
        System.out.println("pid " + ProcessHandle.current().pid());
        for (int i = 0; i < cache.length; i++) cache[i] = new byte[10_000];
        double leak = args.length > 3 ? Double.parseDouble(args[3]) : 0;
        run(rate, Double.parseDouble(args[1]), 0);
        System.out.println("warm");
        System.in.read();
        long begin = uptime(), requests = run(rate, Double.parseDouble(args[2]), leak);
        System.out.println("measured " + requests + " " + begin + " " + uptime());
        System.in.read();
        System.exit(0);
    }
}
