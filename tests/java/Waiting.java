/** A JVM to look at from outside: says "ready", then waits for the end of its input. */
public class Waiting {
    public static void main(String[] arguments) throws Exception {
        System.out.println("ready");
        while (System.in.read() >= 0) {
            System.out.println("alive");
        }
    }
}
