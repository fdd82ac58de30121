/** A JVM to look at from outside: says "ready", then waits for the end of its input. */
public class Waiting {
    public static void main(String[] arguments) throws Exception {
        System.out.println("ready");
        while (System.in.read() >= 0) {
            System.out.println("alive");
        }
    }
}

/** The same, for the one test at a time that looks for it by its name: other tests have a Waiting of theirs. */
class Searched extends Waiting {
}

/** And for the one that attaches by name. */
class Attached extends Waiting {
}

/** Java objects hold some 25 MiB of zlib's memory. */
class Holding {
    private static final java.util.Map<Integer, java.util.zip.Deflater> HELD = new java.util.HashMap<>();

    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < 100; i++) {
            HELD.put(i, new java.util.zip.Deflater());
        }
        Waiting.main(arguments);
    }
}

/** Whenever it is asked, threads with small stacks use them up. */
class Diving {
    private static int depth;

    public static void main(String[] arguments) throws Exception {
        System.out.println("ready");
        while (System.in.read() >= 0) {
            for (int kibibytes : new int[] {512, 448, 384, 320}) {
                Thread diver = new Thread(null, Diving::dive, "diver", kibibytes << 10);
                diver.start();
                diver.join();
            }
            System.out.println("alive");
        }
    }

    private static void dive() {
        try {
            deeper();
        } catch (StackOverflowError end) {
            depth = 0;
        }
    }

    private static void deeper() {
        depth++;
        deeper();
    }
}
