import java.io.InputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Loads classes by the two ways there are, each way in a method and on a thread of its own: Java code asks for a
 * class by its name, or the VM needs one to go on. Each class is kept. Argument: how often.
 */
public class Loading {
    static final List<Object> kept = new ArrayList<>();

    public static class Plugin implements Runnable {
        /** The VM, which Java has called for the other class, calls Java for it: the class loader. */
        @Override
        public void run() {
            new Needed();
        }
    }

    public static class Needed {}

    static class Loader extends ClassLoader {
        private final Map<String, byte[]> codes;

        Loader(Map<String, byte[]> codes) {
            super(Loading.class.getClassLoader());
            this.codes = codes;
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            byte[] code = codes.get(name);
            return code != null ? defineClass(name, code, 0, code.length) : super.loadClass(name, resolve);
        }
    }

    static Class<?> byName(Loader loader) throws Exception {
        return loader.loadClass("Loading$Plugin", true);
    }

    static void byNeed(Runnable plugin) {
        plugin.run();
    }

    /** A thread for each: what the VM keeps for a thread's next call of Java, it allocates at the first one. */
    static void all(Map<String, byte[]> codes, int times) throws Exception {
        for (int i = 0; i < times; i++) {
            Loader loader = new Loader(codes);
            kept.add(loader);
            Runnable plugin = (Runnable) byName(loader).getDeclaredConstructor().newInstance();
            Thread needing = new Thread(() -> byNeed(plugin), "by need");
            needing.start();
            needing.join();
        }
    }

    public static void main(String[] args) throws Exception {
        Map<String, byte[]> codes = new HashMap<>();
        for (String name : new String[] {"Loading$Plugin", "Loading$Needed"})
            try (InputStream in = Loading.class.getResourceAsStream(name + ".class")) {
                codes.put(name, in.readAllBytes());
            }
        Thread thread = new Thread(() -> {
            try {
                all(codes, Integer.parseInt(args[0]));
            } catch (Exception error) {
                throw new RuntimeException(error);
            }
        }, "by name");
        thread.start();
        thread.join();
        System.out.println("done");
    }
}
