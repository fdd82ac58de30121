import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.reflect.Array;

/** Makes classes with long names, and arrays of them below a deep stack. */
final class ManyClasses extends ClassLoader {
    static final int LENGTH = 2000, DEPTH = 300; // the probe takes 256 frames of a stack
    static final String PREFIX = "Generated" + "x".repeat(900);
    static final ManyClasses loader = new ManyClasses();
    static int made;

    /** An array of a class that did not exist before. */
    static Object array() throws IOException {
        byte[] file = classFile(PREFIX + made++);
        return below(DEPTH, loader.defineClass(null, file, 0, file.length));
    }

    private static Object below(int depth, Class<?> of) {
        return depth == 0 ? Array.newInstance(of, LENGTH) : below(depth - 1, of);
    }

    /** A class file without fields and methods. */
    private static byte[] classFile(String name) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeInt(0xCAFEBABE);
        out.writeInt(52); // of Java 8
        out.writeShort(5); // constants
        out.write(7); // a class
        out.writeShort(2);
        out.write(1); // a text
        out.writeUTF(name);
        out.write(7);
        out.writeShort(4);
        out.write(1);
        out.writeUTF("java/lang/Object");
        out.writeShort(0x21); // public, super
        out.writeShort(1);
        out.writeShort(3);
        for (int i = 0; i < 4; i++) out.writeShort(0); // interfaces, fields, methods, attributes
        return bytes.toByteArray();
    }
}
