package leaks;

/**
 * Collections of the whole heap, now and then: as RMI requests, and long before the heap is full. None with
 * -Dcollect=never.
 */
final class Collections {
    private static final long EVERY_NANOS = 1_500_000_000L;
    private static final boolean never = "never".equals(System.getProperty("collect"));
    private static long next = System.nanoTime() + EVERY_NANOS;

    private Collections() {}

    static void nowAndThen() {
        if (!never && System.nanoTime() > next) {
            System.gc();
            next = System.nanoTime() + EVERY_NANOS;
        }
    }
}
