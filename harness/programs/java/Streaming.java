import java.util.concurrent.CountDownLatch;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingStream;

/** Streams JFR's events of its own process: prints one of offheap's as it comes, then waits. */
public class Streaming {
    public static void main(String[] arguments) throws Exception {
        CountDownLatch seen = new CountDownLatch(1);
        try (RecordingStream stream = new RecordingStream()) {
            stream.onEvent("offheap.ResidentSet", event -> {
                if (event.getString("owner").equals("java-heap")) {
                    System.out.println(event.getLong("resident") + " " + event.getLong("total"));
                    System.out.flush();
                    seen.countDown();
                }
            });
            stream.startAsync();
            System.out.println("ready");
            System.out.flush();
            seen.await();
        }
        System.in.read();
    }
}
