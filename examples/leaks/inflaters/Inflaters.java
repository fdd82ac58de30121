package leaks;

import java.util.ArrayList;
import java.util.List;
import java.util.zip.Inflater;

/** An upload handler takes an Inflater for each request and forgets to end it. Each keeps about 7 KiB of zlib's. */
public final class Inflaters {
    private static final List<Inflater> forgotten = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        ZipChurn.start(2, 100);
        Exhibit.run(args, 200, Inflaters::handleUpload);
    }

    private static void handleUpload() {
        forgotten.add(openInflater());
        // How much zlib takes for one is zlib's business: the truth is how many there are.
        Exhibit.leaked(0);
    }

    private static Inflater openInflater() {
        return new Inflater();
    }
}
