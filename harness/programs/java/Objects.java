import java.util.*;
/** One method for each way to allocate an object, so that an agent allocates memory beside each. */
public final class Objects {
    static volatile Object sink;
    static final class Point { long a, b, c; }
    static void instances(int n) { for (int i = 0; i < n; i++) sink = new Point(); }
    static void bytes(int n) { for (int i = 0; i < n; i++) sink = new byte[64 + (i & 63)]; }
    static void references(int n) { for (int i = 0; i < n; i++) sink = new Object[16]; }
    static void grids(int n) { for (int i = 0; i < n; i++) sink = new int[4][8]; }
    static void copies(int n) { byte[] b = new byte[100]; for (int i = 0; i < n; i++) sink = b.clone(); }
    static void strings(int n) { for (int i = 0; i < n; i++) sink = "x" + i; }
    static void lambdas(int n) { for (int i = 0; i < n; i++) { int k = i; Runnable r = () -> sink = k; r.run(); sink = r; } }
    static void reflected(int n) { for (int i = 0; i < n; i++) sink = java.lang.reflect.Array.newInstance(long.class, 12); }
    static void round(int n) { instances(n); bytes(n); references(n); grids(n); copies(n); strings(n); lambdas(n); reflected(n); }
    public static void main(String[] a) { for (int i = 0; i < Integer.parseInt(a[0]); i++) round(200); }
}
