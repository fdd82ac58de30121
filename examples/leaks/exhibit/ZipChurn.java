package leaks;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.concurrent.locks.LockSupport;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;

/** Threads that compress and expand all the time and end what they began: much allocation, no leak. */
final class ZipChurn {
    private ZipChurn() {}

    static void start(int threads, double roundsPerSecond) {
        for (int number = 1; number <= threads; number++) {
            Thread thread = new Thread(() -> churn(roundsPerSecond), "churn-" + number);
            thread.setDaemon(true);
            thread.start();
        }
    }

    private static void churn(double roundsPerSecond) {
        byte[] text = "the quick brown fox jumps over the lazy dog ".repeat(100).getBytes();
        while (true) {
            roundTrip(text);
            LockSupport.parkNanos((long) (1e9 / roundsPerSecond));
        }
    }

    static int roundTrip(byte[] text) {
        try {
            ByteArrayOutputStream packed = new ByteArrayOutputStream();
            try (GZIPOutputStream output = new GZIPOutputStream(packed)) {
                output.write(text);
            }
            try (GZIPInputStream input = new GZIPInputStream(new ByteArrayInputStream(packed.toByteArray()))) {
                return input.readAllBytes().length;
            }
        } catch (IOException impossible) {
            throw new AssertionError(impossible);
        }
    }
}
