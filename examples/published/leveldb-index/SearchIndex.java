package com.example.index;

import com.example.load.Load;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.Random;
import org.fusesource.leveldbjni.JniDBFactory;
import org.iq80.leveldb.DB;
import org.iq80.leveldb.DBIterator;
import org.iq80.leveldb.Options;

/** Reads an index of LevelDB through its cache of 8 MB; the leaking twin does not close its iterators. */
public final class SearchIndex {
    private static final int WORDS = 40_000;
    private final Random random = new Random(3);
    private final DB database;

    SearchIndex(File folder) throws IOException {
        database = JniDBFactory.factory.open(folder, new Options().createIfMissing(true).cacheSize(8 << 20));
        byte[] postings = new byte[400];
        for (int word = 0; word < WORDS; word++) {
            random.nextBytes(postings);
            database.put(key(word), postings);
        }
    }

    private static byte[] key(int word) {
        return ByteBuffer.allocate(4).putInt(word).array();
    }

    synchronized void find(long number) throws IOException {
        DBIterator found = database.iterator();
        found.seek(key(random.nextInt(WORDS)));
        if (Load.leaks()) {
            Load.leaked(0);
        } else {
            found.close();
        }
    }

    public static void main(String[] args) throws InterruptedException, IOException {
        Load.run(args, 200, new SearchIndex(Files.createTempDirectory("index").toFile())::find);
    }
}
