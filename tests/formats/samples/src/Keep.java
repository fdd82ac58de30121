/** Keeps 400 arrays of 20,000 bytes in 2 s, each beside 1 MB that it drops; 64 MB of heap make that collections. */
class Keep {
    static final java.util.List<byte[]> kept = new java.util.ArrayList<>();
    static volatile byte[] dropped;

    static void keepOne() {
        kept.add(new byte[20_000]);
    }

    static void drop() {
        for (int i = 0; i < 100; i++) dropped = new byte[10_000];
    }

    public static void main(String[] arguments) throws InterruptedException {
        for (int i = 0; i < 400; i++) {
            keepOne();
            drop();
            Thread.sleep(5);
        }
    }
}
