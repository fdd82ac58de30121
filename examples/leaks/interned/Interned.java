package leaks;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;

/** Interns the name of each customer and keeps it; names hardly ever come twice. */
public final class Interned {
    private static final int NAMES = 40;
    private static final int LENGTH = 100;
    private static final Set<String> names = new HashSet<>();
    private static final Held strings = new Held("leaks.Interned.read", "java.lang.String");
    private static final Held contents = new Held("leaks.Interned.read", "byte[]");
    private static final byte[] line = new byte[LENGTH];
    private static long customer;

    public static void main(String[] args) throws Exception {
        Exhibit.run(
                args,
                100,
                () -> {
                    for (int name = 0; name < NAMES; name++) {
                        names.add(read());
                    }
                    Collections.nowAndThen();
                });
    }

    private static String read() {
        Arrays.fill(line, (byte) 'n');
        for (long rest = customer++, place = 0; rest > 0; rest /= 10) {
            line[(int) place++] = (byte) ('0' + rest % 10);
        }
        String name = new String(line, StandardCharsets.ISO_8859_1).intern();
        strings.add(name);
        contents.add(line); // as long as the name's own
        Exhibit.leaked(Sizes.of(name) + Sizes.of(line));
        return name;
    }
}
