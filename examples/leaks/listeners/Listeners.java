package leaks;

import java.util.ArrayList;
import java.util.List;

/** Each window listens to the clock, and a closed window still does: nobody removes it from the list. */
public final class Listeners {
    private static final int WINDOWS = 50;
    private static final List<Runnable> clock = new ArrayList<>();
    private static final Held held = new Held("leaks.Listeners.open", "leaks.Listeners$Window");

    /** A small object of many fields. */
    private static final class Window implements Runnable {
        private long left, top, right, bottom, opened, shown, painted, moved, focused, zoom, layer, owner, title;

        @Override
        public void run() {
            painted++;
        }
    }

    public static void main(String[] args) throws Exception {
        Exhibit.run(
                args,
                100,
                () -> {
                    for (int window = 0; window < WINDOWS; window++) {
                        open();
                    }
                    Collections.nowAndThen();
                });
    }

    private static void open() {
        Window window = new Window();
        clock.add(window);
        held.add(window);
        Exhibit.leaked(Sizes.of(window));
    }
}
