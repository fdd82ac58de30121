package leaks;

/** Collections of the whole heap, now and then: as RMI asks for, and long before the heap is full. */
final class Collections {
    private static final long EVERY_NANOS = 1_500_000_000L;
    private static long next = System.nanoTime() + EVERY_NANOS;

    private Collections() {}

    static void nowAndThen() {
        if (System.nanoTime() > next) {
            System.gc();
            next = System.nanoTime() + EVERY_NANOS;
        }
    }
}
