import java.io.InputStream;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.Inflater;

/** Loads a class many times over, lets each copy allocate native memory once, and unloads it. */
public class Unloading {
    private static final List<Object> kept = new ArrayList<>();

    /** Public, since a plugin's class loader is another. */
    public static void keep(Object object) {
        kept.add(object);
    }

    public static class Plugin implements Runnable {
        @Override
        public void run() {
            allocateInPlugin();
        }

        static void allocateInPlugin() {
            keep(new Inflater());
        }
    }

    static class Loader extends ClassLoader {
        private final byte[] code;

        Loader(byte[] code) {
            super(Unloading.class.getClassLoader());
            this.code = code;
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            return name.equals("Unloading$Plugin") ? defineClass(name, code, 0, code.length) : super.loadClass(name, resolve);
        }
    }

    static WeakReference<Class<?>> once(byte[] code) throws Exception {
        Class<?> plugin = new Loader(code).loadClass("Unloading$Plugin", true);
        ((Runnable) plugin.getDeclaredConstructor().newInstance()).run();
        return new WeakReference<>(plugin);
    }

    /**
     * Arguments: copies, and after how many of them to say "collect?" and to wait for a line before garbage is
     * collected.
     */
    public static void main(String[] args) throws Exception {
        int copies = Integer.parseInt(args[0]), round = Integer.parseInt(args[1]);
        byte[] code;
        try (InputStream in = Unloading.class.getResourceAsStream("Unloading$Plugin.class")) {
            code = in.readAllBytes();
        }
        List<WeakReference<Class<?>>> plugins = new ArrayList<>();
        for (int i = 0; i < copies; i++) {
            plugins.add(once(code));
            if (i % round == round - 1) {
                System.out.println("collect?");
                while (System.in.read() != '\n') {}
                System.gc();
            }
        }
        System.gc();
        System.out.println(plugins.stream().filter(plugin -> plugin.get() == null).count() + " unloaded");
    }
}
