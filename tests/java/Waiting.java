/** A JVM to look at from outside: says "ready", then waits for the end of its input. */
public class Waiting {
    public static void main(String[] arguments) throws Exception {
        System.out.println("ready");
        while (System.in.read() >= 0) {
            System.out.println("alive");
        }
    }
}

/** The same, for the one test at a time that looks for it by its name: other tests have a Waiting of theirs. */
class Searched extends Waiting {
}

/** And for the one that attaches by name. */
class Attached extends Waiting {
}
