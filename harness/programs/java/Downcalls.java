import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodType;
import java.lang.reflect.Array;
import java.util.Optional;

/**
 * Only `duplicate` of the methods here calls strdup; compiled code has it beside the others. Foreign functions (JDK 22
 * or newer) by reflection, so that any JDK compiles this.
 */
public final class Downcalls {
    private static final MethodHandle STRDUP = function("strdup", true);
    private static final MethodHandle STRLEN = function("strlen", false);
    private static final MethodHandle FREE = function("free", false);
    private static long sum;

    public static void main(String[] args) throws Throwable {
        Object text = text();
        int rounds = Integer.parseInt(args[0]);
        for (int i = 0; i < rounds; i++) round(text, i);
        System.out.println(sum);
    }

    private static void round(Object text, int number) throws Throwable {
        Object copy = duplicate(text);
        sum += length(copy);
        if (number % 64 != 0) release(copy);
    }

    private static Object duplicate(Object text) throws Throwable {
        return (Object) STRDUP.invokeExact(text);
    }

    private static long length(Object text) throws Throwable {
        return (long) STRLEN.invokeExact(text);
    }

    private static void release(Object text) throws Throwable {
        FREE.invokeExact(text);
    }

    private static Object text() throws Throwable {
        Class<?> arena = Class.forName("java.lang.foreign.Arena");
        Object global = arena.getMethod("global").invoke(null);
        return Class.forName("java.lang.foreign.SegmentAllocator")
                .getMethod("allocateFrom", String.class)
                .invoke(global, "forty bytes of a text that is duplicated.");
    }

    /** From an address, to an address, a long or nothing. */
    private static MethodHandle function(String name, boolean toAddress) {
        try {
            Class<?> layout = Class.forName("java.lang.foreign.MemoryLayout");
            Class<?> layouts = Class.forName("java.lang.foreign.ValueLayout");
            Class<?> descriptor = Class.forName("java.lang.foreign.FunctionDescriptor");
            Class<?> linkers = Class.forName("java.lang.foreign.Linker");
            Class<?> options = Class.forName("java.lang.foreign.Linker$Option");
            Class<?> segment = Class.forName("java.lang.foreign.MemorySegment");
            Object address = layouts.getField("ADDRESS").get(null);
            Object arguments = Array.newInstance(layout, 1);
            Array.set(arguments, 0, address);
            boolean toNothing = name.equals("free");
            Object result = toAddress ? address : layouts.getField("JAVA_LONG").get(null);
            Object signature = toNothing
                    ? descriptor.getMethod("ofVoid", arguments.getClass()).invoke(null, arguments)
                    : descriptor.getMethod("of", layout, arguments.getClass()).invoke(null, result, arguments);
            Object linker = linkers.getMethod("nativeLinker").invoke(null);
            Object lookup = linkers.getMethod("defaultLookup").invoke(linker);
            Object found = ((Optional<?>) Class.forName("java.lang.foreign.SymbolLookup")
                    .getMethod("find", String.class).invoke(lookup, name)).orElseThrow();
            MethodHandle handle = (MethodHandle) linkers
                    .getMethod("downcallHandle", segment, descriptor, Array.newInstance(options, 0).getClass())
                    .invoke(linker, found, signature, Array.newInstance(options, 0));
            Class<?> type = toNothing ? void.class : toAddress ? Object.class : long.class;
            return handle.asType(MethodType.methodType(type, Object.class));
        } catch (ReflectiveOperationException impossible) {
            throw new AssertionError(impossible);
        }
    }
}
