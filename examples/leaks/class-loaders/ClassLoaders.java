package leaks;

import java.util.ArrayList;
import java.util.List;

/** Loads a plug-in anew for each deployment and keeps the old ones. */
public final class ClassLoaders {
    private static final List<Object> deployed = new ArrayList<>();

    /** What is loaded again and again. */
    public static final class Plugin {
        public String greet(String name) {
            return "hello " + name + " " + name.length();
        }
    }

    public static void main(String[] args) throws Exception {
        byte[] bytes = PluginLoader.bytes(Plugin.class);
        Exhibit.run(args, 50, () -> {
            deployed.add(new PluginLoader().define(Plugin.class, bytes).getDeclaredConstructor().newInstance());
            Exhibit.leaked(0);
            Collections.nowAndThen();
        });
    }
}
