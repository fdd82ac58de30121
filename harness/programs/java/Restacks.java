import java.io.InputStream;
import java.lang.instrument.ClassDefinition;
import java.lang.instrument.Instrumentation;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.zip.Inflater;

/**
 * Allocates native memory again and again from stacks that are alike and yet not the same: another bytecode of
 * one method, another depth, a call inlined or no longer, a class that was unloaded and loaded anew, or (where it
 * is its own Java agent) redefined while its methods are on the stack.
 */
public class Restacks {
    private static volatile int sink;
    private static Instrumentation instrumentation;

    public static void premain(String arguments, Instrumentation its) {
        instrumentation = its;
    }

    /** Implemented by classes that come and go: what was compiled for some is thrown away with the next. */
    public interface Step {
        void run(int n);
    }

    public static class Plugin implements Step {
        @Override
        public void run(int n) {
            if (n % 3 == 0) {
                inflate();
            } else if (n % 3 == 1) {
                inflate();
            } else {
                deeper(n % 5);
            }
        }
    }

    static class Loader extends ClassLoader {
        private final byte[] code;

        Loader(byte[] code) {
            super(Restacks.class.getClassLoader());
            this.code = code;
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            return name.equals("Restacks$Plugin") ? defineClass(name, code, 0, code.length) : super.loadClass(name, resolve);
        }
    }

    /** Its constant is changed under it, so that the old methods are obsolete and not only equal to the new ones. */
    static class Redefined {
        static void hold(int n) {
            for (int i = 0; i < 40; i++) {
                turn(n + i);
            }
        }

        static void turn(int n) {
            if ((n & 1) == 0) {
                inflate();
            } else {
                deeper(n % 3);
            }
            sink += 0x5EC0DE01;
        }
    }

    static byte[] code(String name) throws Exception {
        try (InputStream in = Restacks.class.getResourceAsStream(name + ".class")) {
            return in.readAllBytes();
        }
    }

    static byte[] changed(byte[] code) {
        byte[] constant = {3, 0x5E, (byte) 0xC0, (byte) 0xDE, 1}, other = code.clone();
        int at = 0;
        while (!Arrays.equals(code, at, at + constant.length, constant, 0, constant.length)) {
            at++;
        }
        other[at + 4] = 2;
        return other;
    }

    public static void inflate() {
        new Inflater().end();
    }

    public static void deeper(int depth) {
        if (depth > 0) {
            deeper(depth - 1);
        } else {
            inflate();
        }
        sink++;
    }

    /** The same pc for every call while it is interpreted: only the bytecode index tells them apart. */
    static void fromManyPlaces(int n) {
        switch (n & 7) {
            case 0: inflate(); break;
            case 1: inflate(); break;
            case 2: inflate(); inflate(); break;
            case 3: deeper(1); break;
            case 4: deeper(n % 11); break;
            case 5: inflate(); deeper(2); inflate(); break;
            default: inflate();
        }
    }

    static void throwing(int n) {
        try {
            if (n % 4 == 0) {
                Object nothing = n < 0 ? "" : null;
                sink += nothing.hashCode();
            }
            inflate();
        } catch (NullPointerException e) {
            inflate();
        }
    }

    /** Seldom taken, so the compiler leaves it out at first and deoptimizes when it is met. */
    static void seldom(int n, int turn) {
        if (turn > 3 && n % 97 == turn % 97) {
            inflate();
        }
        inflate();
    }

    static void once(Step step, int n, int turn, Method reflected, MethodHandle handle) throws Throwable {
        step.run(n);
        fromManyPlaces(n);
        throwing(n);
        seldom(n, turn);
        if (n % 32 == 0) {
            Redefined.hold(n);
        }
        if (n % 4 == 0) {
            reflected.invoke(null, n % 3);
            handle.invokeExact(n % 3);
        }
        if (n % 16 == 0) {
            Thread.yield();
        }
    }

    static void work(byte[] code, int iterations, int turns) {
        try {
            Method reflected = Restacks.class.getMethod("deeper", int.class);
            MethodHandle handle =
                    MethodHandles.lookup().findStatic(Restacks.class, "deeper", MethodType.methodType(void.class, int.class));
            for (int turn = 0; turn < turns; turn++) {
                Class<?> plugin = new Loader(code).loadClass("Restacks$Plugin", true);
                Step step = (Step) plugin.getDeclaredConstructor().newInstance();
                for (int n = 0; n < iterations; n++) {
                    once(step, n, turn, reflected, handle);
                }
            }
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1);
        }
    }

    private static Thread start(Runnable work, boolean virtual) throws Exception {
        if (virtual) {
            return (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, work);
        }
        Thread thread = new Thread(work);
        thread.start();
        return thread;
    }

    /** Arguments: threads, how often a thread loads its class anew, and how much it does with each. */
    public static void main(String[] args) throws Exception {
        int threads = Integer.parseInt(args[0]), turns = Integer.parseInt(args[1]), iterations = Integer.parseInt(args[2]);
        byte[] code = code("Restacks$Plugin"), first = code("Restacks$Redefined"), second = changed(first);
        int round = 0;
        List<Thread> started = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            started.add(start(() -> work(code, iterations, turns), Boolean.getBoolean("virtual")));
        }
        for (boolean alive = true; alive; alive = started.stream().anyMatch(Thread::isAlive)) {
            Thread.sleep(instrumentation == null ? 20 : 5);
            if (instrumentation != null) {
                instrumentation.redefineClasses(new ClassDefinition(Redefined.class, round % 2 == 0 ? second : first));
                if (round % 3 == 0) { /* every compiled frame of these is thrown away */
                    instrumentation.retransformClasses(Restacks.class, Redefined.class);
                }
            }
            if (round++ % 4 == 0 || instrumentation == null) {
                System.gc(); /* unloads the classes of former turns, sweeps their code */
            }
        }
        System.out.println("done");
    }
}
