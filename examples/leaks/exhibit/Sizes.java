package leaks;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import sun.misc.Unsafe;

/** Sizes of objects in the heap of this JVM: headers and references differ from one JVM to another. */
final class Sizes {
    private static final int ALIGNMENT = 8;
    private static final Unsafe unsafe = unsafe();
    private static final ClassValue<Long> instances =
            new ClassValue<>() {
                @Override
                protected Long computeValue(Class<?> type) {
                    return ofInstance(type);
                }
            };

    private Sizes() {}

    static long of(Object object) {
        if (object instanceof byte[]) {
            return aligned(Unsafe.ARRAY_BYTE_BASE_OFFSET + ((byte[]) object).length);
        }
        return instances.get(object.getClass());
    }

    /** HotSpot leaves no gap after the last field but for the alignment. The class must have a field. */
    private static long ofInstance(Class<?> type) {
        long end = 0;
        for (Class<?> part = type; part != null; part = part.getSuperclass()) {
            for (Field field : part.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    end = Math.max(end, unsafe.objectFieldOffset(field) + width(field.getType()));
                }
            }
        }
        return aligned(end);
    }

    private static long width(Class<?> type) {
        if (type == long.class || type == double.class) {
            return 8;
        }
        if (type == int.class || type == float.class) {
            return 4;
        }
        if (type == short.class || type == char.class) {
            return 2;
        }
        return type.isPrimitive() ? 1 : Unsafe.ARRAY_OBJECT_INDEX_SCALE;
    }

    private static long aligned(long size) {
        return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }

    private static Unsafe unsafe() {
        try {
            Field field = Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            return (Unsafe) field.get(null);
        } catch (ReflectiveOperationException unsupported) {
            throw new AssertionError(unsupported);
        }
    }
}
