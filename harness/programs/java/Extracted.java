import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;

/**
 * Extracts a library into a temporary folder, loads it and deletes it at once, as many libraries of Maven Central do.
 * Then it allocates through it until its standard input ends.  For each line it says when 50 more blocks are allocated.
 */
public final class Extracted {
    private static volatile long kept;

    private static native long keep(long bytes);

    public static void main(String[] args) throws Exception {
        System.out.println("waiting");
        System.in.read(); // for the end of a line
        Path library = Files.createTempFile("extracted", ".so");
        Files.copy(Paths.get(args[0]), library, StandardCopyOption.REPLACE_EXISTING);
        System.load(library.toString());
        Files.delete(library);
        System.out.println("loaded");
        Thread thread = new Thread(Extracted::keepOn, "keeper");
        thread.setDaemon(true);
        thread.start();
        while (System.in.read() >= 0) {
            for (long goal = kept + 50; kept < goal; Thread.sleep(1)) {}
            System.out.println("kept");
        }
    }

    private static void keepOn() {
        try {
            for (; ; Thread.sleep(1)) {
                keep(2000);
                kept++;
            }
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }
}
