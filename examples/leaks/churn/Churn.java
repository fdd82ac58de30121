package leaks;

/** Healthy: compresses and expands all the time, and ends every stream. */
public final class Churn {
    public static void main(String[] args) throws Exception {
        byte[] text = "a line of the access log, again and again\n".repeat(200).getBytes();
        ZipChurn.start(2, 100);
        Exhibit.run(args, 200, () -> ZipChurn.roundTrip(text));
    }
}
