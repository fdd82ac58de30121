import java.io.InputStream;
import java.lang.instrument.ClassDefinition;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.zip.Inflater;

/**
 * Everything that is hard on an agent, all at once, while other threads allocate native memory: what it prints
 * and its exit status are the same whenever it runs.
 *
 * Arguments: a divisor of all counts, and the end: return, exit (status 17, in the middle of everything), memory
 * (an OutOfMemoryError, for -XX:+ExitOnOutOfMemoryError) or told (all of it again and again, until there is another
 * line on standard input).  Also a Java agent of itself, for redefinition.
 */
public class Stress {
    interface Part {
        /** How many of `count` went as they should. */
        int run(int count) throws Exception;
    }

    private static Instrumentation instrumentation;
    private static volatile boolean over;

    public static void premain(String arguments, Instrumentation its) {
        instrumentation = its;
    }

    public static void allocate() {
        Inflater inflater = new Inflater();
        inflater.end();
    }

    static int threads(int count) throws InterruptedException {
        AtomicInteger done = new AtomicInteger();
        List<Thread> batch = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Thread thread = new Thread(() -> {
                allocate();
                done.incrementAndGet();
            }, "short-" + i);
            thread.start();
            batch.add(thread);
            if (batch.size() == 32 || i == count - 1) {
                for (Thread other : batch) other.join();
                batch.clear();
            }
        }
        return done.get();
    }

    /** Loaded anew by each loader; allocates from a method that is unloaded with it. */
    public static class Plugin implements Runnable {
        @Override
        public void run() {
            allocate();
        }
    }

    static class Loader extends ClassLoader {
        private final byte[] code;

        Loader(byte[] code) {
            super(Stress.class.getClassLoader());
            this.code = code;
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            return name.equals("Stress$Plugin") ? defineClass(name, code, 0, code.length) : super.loadClass(name, resolve);
        }
    }

    static byte[] code(String name) throws Exception {
        try (InputStream in = Stress.class.getResourceAsStream(name + ".class")) {
            return in.readAllBytes();
        }
    }

    static int loaders(int count) throws Exception {
        byte[] code = code("Stress$Plugin");
        int done = 0;
        for (int i = 0; i < count; i++) {
            ((Runnable) new Loader(code).loadClass("Stress$Plugin", true).getDeclaredConstructor().newInstance()).run();
            done++;
            if (i % 500 == 499) System.gc();
        }
        return done;
    }

    /** By reflection: the class is compiled for 11. */
    static int virtual(int count) throws Exception {
        Method make;
        try {
            make = Executors.class.getMethod("newVirtualThreadPerTaskExecutor");
        } catch (NoSuchMethodException noneYet) {
            return count;
        }
        AtomicInteger done = new AtomicInteger();
        ExecutorService executor = (ExecutorService) make.invoke(null);
        for (int i = 0; i < count; i++)
            executor.submit(() -> {
                Inflater inflater = new Inflater();
                Thread.sleep(1); // unmounts: what is allocated on one carrier is freed on another
                inflater.end();
                return done.incrementAndGet();
            });
        executor.shutdown();
        while (!executor.isTerminated()) Thread.sleep(1);
        return done.get();
    }

    static int length(String text) {
        return text.length();
    }

    /** Compiled code finds a null by the SIGSEGV, if it is one of few: between two of them is a string. */
    static int nulls(int count) {
        int done = 0;
        for (int i = 0; done < count; i++) {
            try {
                done += length(i % 2 == 0 ? null : "");
            } catch (NullPointerException expected) {
                done++;
            }
            if (i % 100 == 0) allocate();
        }
        return done;
    }

    static int dive(int depth) {
        if (depth % 64 == 0) allocate();
        return dive(depth + 1) + 1;
    }

    /** Over the yellow page again and again, and from inside native allocation. */
    static int overflows(int count) throws InterruptedException {
        AtomicInteger done = new AtomicInteger();
        Thread diver = new Thread(null, () -> {
            for (int i = 0; i < count; i++) {
                try {
                    dive(1);
                } catch (StackOverflowError expected) {
                    done.incrementAndGet();
                }
            }
        }, "diver", 512 * 1024);
        diver.start();
        diver.join();
        return done.get();
    }

    static int children(int count) throws Exception {
        int done = 0;
        for (int i = 0; i < count; i++) {
            ProcessBuilder builder = new ProcessBuilder("/bin/sh", "-c", "exit 7");
            if (builder.start().waitFor() == 7) done++;
        }
        return done;
    }

    /** Its constant is changed under it. */
    static class Redefined {
        static int version() {
            allocate();
            return 0x5EC0DE01;
        }
    }

    static int redefinitions(int count) throws Exception {
        byte[] first = code("Stress$Redefined"), second = first.clone();
        byte[] constant = {3, 0x5E, (byte) 0xC0, (byte) 0xDE, 1};
        int at = 0;
        while (!Arrays.equals(first, at, at + constant.length, constant, 0, constant.length)) at++;
        second[at + 4] = 2;
        int done = 0;
        for (int i = 0; i < count; i++) {
            byte[] code = i % 2 == 0 ? second : first;
            instrumentation.redefineClasses(new ClassDefinition(Redefined.class, code));
            if (Redefined.version() == 0x5EC0DE00 + (i % 2 == 0 ? 2 : 1)) done++;
        }
        return done;
    }

    static void start(List<Thread> started, int[] done, String[] complaints, Part part, int count) {
        int index = started.size();
        Thread thread = new Thread(() -> {
            try {
                done[index] = part.run(count);
            } catch (Throwable error) {
                complaints[index] = error.toString();
            }
        }, "part");
        started.add(thread);
        thread.start();
    }

    static Thread background(String name, Runnable step) {
        Thread thread = new Thread(() -> {
            while (!over) step.run();
        }, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /** Everything once.  What each part did, a line each. */
    static String work(int divisor, String end) throws InterruptedException {
        List<Thread> started = new ArrayList<>();
        int[] done = new int[8];
        String[] complaints = new String[8];
        start(started, done, complaints, Stress::threads, 10000 / divisor);
        start(started, done, complaints, Stress::loaders, 5000 / divisor);
        start(started, done, complaints, Stress::virtual, 20000 / divisor);
        start(started, done, complaints, Stress::nulls, 200000 / divisor);
        start(started, done, complaints, Stress::overflows, 1000 / divisor);
        start(started, done, complaints, Stress::children, 400 / divisor);
        start(started, done, complaints, Stress::redefinitions, 400 / divisor);
        if (end.equals("exit")) {
            // Whatever else goes on at that moment is the point.
            started.get(0).join();
            System.out.println("exit");
            System.exit(17);
        }
        for (Thread thread : started) thread.join();
        String[] names = {"threads", "loaders", "virtual", "nulls", "overflows", "children", "redefinitions"};
        StringBuilder result = new StringBuilder();
        for (int i = 0; i < names.length; i++)
            result.append(names[i]).append(' ').append(complaints[i] != null ? complaints[i] : done[i]).append('\n');
        return result.toString();
    }

    public static void main(String[] arguments) throws Exception {
        int divisor = Integer.parseInt(arguments[0]);
        String end = arguments[1];
        List<byte[]> kept = new ArrayList<>();
        System.out.println("ready");
        System.in.read();
        background("churn", () -> {
            for (int i = 0; i < 100; i++) allocate();
            pause();
        });
        background("buffers", () -> {
            java.nio.ByteBuffer.allocateDirect(64 * 1024);
            pause();
        });
        String first = work(divisor, end), last = first;
        while (end.equals("told") && last.equals(first) && System.in.available() == 0) last = work(divisor, end);
        System.out.print(last);
        // By large steps: with little left Shenandoah collects for minutes before it gives up.
        if (end.equals("memory")) for (int size = 64 << 20; ; size *= 2) kept.add(new byte[size]);
        over = true;
    }

    static void pause() {
        try {
            Thread.sleep(1);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }
}
