package leaks;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;

/** The objects of one class, allocated by one method, that a program holds in the Java heap by its own count. */
final class Held {
    private static final List<Held> all = new CopyOnWriteArrayList<>();

    private final String method;
    private final String type;
    private final AtomicLong objects = new AtomicLong();
    private final AtomicLong bytes = new AtomicLong();

    /** `type` as offheap writes it: byte[], java.lang.String. */
    Held(String method, String type) {
        this.method = method;
        this.type = type;
        all.add(this);
    }

    void add(Object object) {
        objects.incrementAndGet();
        bytes.addAndGet(Sizes.of(object));
    }

    void remove(Object object) {
        objects.decrementAndGet();
        bytes.addAndGet(-Sizes.of(object));
    }

    /** A line of JSON for each. */
    static void tell() {
        for (Held held : all) {
            System.out.printf(
                    "{\"method\": \"%s\", \"class\": \"%s\", \"objects\": %d, \"bytes\": %d}%n",
                    held.method, held.type, held.objects.get(), held.bytes.get());
        }
    }
}
