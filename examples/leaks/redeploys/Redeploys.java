package leaks;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/** Loads an application anew for each deployment. A registry keeps the old ones, each with its class's cache. */
public final class Redeploys {
    private static final List<Supplier<byte[]>> registry = new ArrayList<>();
    private static final Held held = new Held("leaks.Redeploys$Application.<clinit>", "byte[]");

    /** Each deployment has a copy of this class. */
    public static final class Application implements Supplier<byte[]> {
        private static final byte[] cache = new byte[20_000];

        @Override
        public byte[] get() {
            return cache;
        }
    }

    public static void main(String[] args) throws Exception {
        byte[] bytes = PluginLoader.bytes(Application.class);
        Exhibit.run(
                args,
                40,
                () -> {
                    deploy(bytes);
                    Collections.nowAndThen();
                });
    }

    @SuppressWarnings("unchecked")
    private static void deploy(byte[] bytes) throws ReflectiveOperationException {
        Class<?> copy = new PluginLoader().define(Application.class, bytes);
        Supplier<byte[]> application = (Supplier<byte[]>) copy.getDeclaredConstructor().newInstance();
        registry.add(application);
        held.add(application.get());
        Exhibit.leaked(Sizes.of(application.get()));
    }
}
