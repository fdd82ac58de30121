package leaks;

/** Short-lived threads under a native agent that notes each by its number and never forgets one. */
public final class ThreadMap {
    public static void main(String[] args) throws Exception {
        Exhibit.run(args, 200, ThreadMap::serveRequest);
    }

    private static void serveRequest() {
        // No join: the JVM keeps the monitors of ended threads for a while, which is not the leak to be shown.
        new Thread(() -> {}, "request").start();
        // The tree's nodes are the C++ library's business: the truth is how many threads there were.
        Exhibit.leaked(0);
    }
}
