package leaks;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.ArrayDeque;
import java.util.Deque;

/** Formulas that were loaded at the start are used for the first time one after the other, and compiled. */
public final class CodeCache {
    private static final int FORMULAS = 4000;
    private static final int CALLS = 400;
    private static final Deque<MethodHandle> unused = new ArrayDeque<>();
    private static volatile long result;

    /** What is loaded many times; one class each, so that the compiler compiles each for itself. */
    public static final class Formula {
        public static long value(long a) {
            long b = a * 3 + 1;
            long c = b ^ (a << 7);
            for (int turn = 0; turn < 4; turn++) {
                b = Long.rotateLeft(b + c, 13) * 0x9E3779B97F4A7C15L;
                c = Math.floorMod(c - b, 1_000_003L) + Math.abs(b % 977);
                a += Long.bitCount(b) * 31L + Long.numberOfTrailingZeros(c | 1) * 17L;
                b ^= Double.doubleToRawLongBits(Math.sqrt(Math.abs((double) a)));
                c += String.valueOf(b & 255).length() + Long.toString(c & 1023).hashCode();
            }
            return a ^ b ^ c;
        }
    }

    public static void main(String[] args) throws Exception {
        byte[] bytes = PluginLoader.bytes(Formula.class);
        MethodType type = MethodType.methodType(long.class, long.class);
        for (int number = 0; number < FORMULAS; number++) {
            Class<?> formula = new PluginLoader().define(Formula.class, bytes);
            unused.add(MethodHandles.publicLookup().findStatic(formula, "value", type));
        }
        Exhibit.run(args, 40, () -> {
            MethodHandle next = unused.poll();
            if (next == null) {
                return;
            }
            try {
                for (int call = 0; call < CALLS; call++) {
                    result += (long) next.invokeExact((long) call);
                }
            } catch (Throwable error) {
                throw new IllegalStateException(error);
            }
            Exhibit.leaked(0);
        });
    }
}
