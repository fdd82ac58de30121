import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;

/** Has many classes loaded, wakes every millisecond, and tells on request how late it ever woke since the last one. */
public class Ticking {
    static class Subject {
        int one, two;

        int first() {
            return one;
        }

        int second() {
            return two;
        }

        int both(int more) {
            return first() + second() + more;
        }
    }

    static class Loader extends ClassLoader {
        Class<?> define(byte[] code) {
            return defineClass("Ticking$Subject", code, 0, code.length);
        }
    }

    static volatile long worst;

    static void tick() {
        for (long last = System.nanoTime(); ; ) {
            try {
                Thread.sleep(1);
            } catch (InterruptedException error) {
                return;
            }
            long now = System.nanoTime();
            worst = Math.max(worst, now - last - 1_000_000);
            last = now;
        }
    }

    /** Argument: how many classes. Each line read is answered by the worst delay in nanoseconds. */
    public static void main(String[] args) throws Exception {
        List<Object> kept = new ArrayList<>();
        byte[] code;
        try (InputStream in = Ticking.class.getResourceAsStream("Ticking$Subject.class")) {
            code = in.readAllBytes();
        }
        for (int i = Integer.parseInt(args[0]); i > 0; i--) {
            Class<?> subject = new Loader().define(code);
            Class.forName(subject.getName(), true, subject.getClassLoader());
            kept.add(subject);
        }
        Thread ticking = new Thread(Ticking::tick);
        ticking.setDaemon(true);
        ticking.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        while (in.readLine() != null) {
            System.out.println(worst);
            worst = 0;
        }
        System.out.println(kept.size());
    }
}
