package leaks;

import java.util.ArrayList;
import java.util.List;
import java.util.function.LongUnaryOperator;

/** Formulas that were loaded at the start are used for the first time one after the other, and compiled. */
public final class CodeCache {
    private static final int FORMULAS = 4000;
    private static final int CALLS = 400;
    private static final List<LongUnaryOperator> formulas = new ArrayList<>(); // code goes with its class
    private static int used;
    private static volatile long result;

    /** What is loaded many times; one class each, so that the compiler compiles each for itself. */
    public static final class Formula implements LongUnaryOperator {
        @Override
        public long applyAsLong(long a) {
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
        for (int number = 0; number < FORMULAS; number++) {
            Class<?> formula = new PluginLoader().define(Formula.class, bytes);
            formulas.add((LongUnaryOperator) formula.getConstructor().newInstance());
        }
        Exhibit.run(args, 40, () -> {
            if (used == FORMULAS) {
                return;
            }
            LongUnaryOperator next = formulas.get(used++);
            for (int call = 0; call < CALLS; call++) {
                result += next.applyAsLong(call);
            }
            Exhibit.leaked(0);
        });
    }
}
