package leaks;

import java.util.ArrayList;
import java.util.List;

/** Keeps one of eight script engines: what the others leave of metaspace lies in pieces between. */
public final class MetaspaceFragments {
    private static final List<Object> kept = new ArrayList<>();

    /** What is loaded again and again. */
    public static final class Script {
        public int run(int argument) {
            return argument * 31 + 7;
        }
    }

    public static void main(String[] args) throws Exception {
        byte[] bytes = PluginLoader.bytes(Script.class);
        Exhibit.run(args, 30, () -> {
            for (int number = 0; number < 8; number++) {
                Object script =
                        new PluginLoader().define(Script.class, bytes).getDeclaredConstructor().newInstance();
                if (number == 3) {
                    kept.add(script);
                    Exhibit.leaked(0);
                }
            }
            Collections.nowAndThen();
        });
    }
}
