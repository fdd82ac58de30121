import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;

/**
 * Holds as many Java objects as its standard input says, and drops them: "small N", "large N", "classes N" (arrays of
 * N new classes), "drop", "churn MIB", "gc"; "collect" collects from now on without end.
 */
public class ObjectsOnDemand {
    static final int SMALL = 200, LARGE = 65_520; // lengths of the arrays; with the header 216 and 65,536 bytes
    static final List<Object> held = new ArrayList<>(1 << 20);
    static volatile Object sink;

    static void small(int count) {
        for (int i = 0; i < count; i++) held.add(new byte[SMALL]);
    }

    static void large(int count) {
        for (int i = 0; i < count; i++) held.add(new byte[LARGE]);
    }

    static void churn(int mib) {
        for (int i = 0; i < mib << 10; i++) sink = new long[128];
    }

    static void collect() {
        while (true) System.gc();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            int count = words.length > 1 ? Integer.parseInt(words[1]) : 0;
            if (words[0].equals("small")) small(count);
            if (words[0].equals("large")) large(count);
            if (words[0].equals("classes")) for (int i = 0; i < count; i++) held.add(ManyClasses.array());
            if (words[0].equals("churn")) churn(count);
            if (words[0].equals("drop")) held.clear();
            if (words[0].equals("gc")) System.gc();
            if (words[0].equals("collect")) new Thread(ObjectsOnDemand::collect).start();
            sink = null;
            System.out.println("done");
        }
    }
}
