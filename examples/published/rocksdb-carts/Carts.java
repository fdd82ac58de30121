package com.example.carts;

import com.example.load.Load;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Random;
import java.util.stream.Stream;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.FlushOptions;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteBatch;
import org.rocksdb.WriteOptions;

/**
 * Shopping carts in RocksDB: its block cache of 24 MB fills ever slower, its write buffers come and go. The leaking
 * twin does not close its iterators.
 */
public final class Carts {
    static {
        RocksDB.loadLibrary();
    }

    private static final int CARTS = 40_000;
    private static final byte[] ITEMS = new byte[800];
    private final RocksDB database;
    private final WriteOptions writing = new WriteOptions();
    private final Random random = new Random(5);

    Carts(Path folder) throws RocksDBException {
        BlockBasedTableConfig table = new BlockBasedTableConfig().setBlockCache(new LRUCache(24 << 20));
        Options options =
                new Options().setCreateIfMissing(true).setWriteBufferSize(2 << 20).setTableFormatConfig(table);
        database = RocksDB.open(options, folder.toString());
        random.nextBytes(ITEMS);
        for (int cart = 0; cart < CARTS; cart++) {
            database.put(writing, key(cart), ITEMS);
        }
        database.flush(new FlushOptions().setWaitForFlush(true));
    }

    private static byte[] key(int cart) {
        return ByteBuffer.allocate(4).putInt(cart).array();
    }

    private synchronized int anyCart() {
        return random.nextInt(CARTS);
    }

    void change(long number) throws RocksDBException {
        look(key(anyCart()));
        if (number % 4 == 0) {
            save(anyCart());
        }
    }

    private void look(byte[] cart) {
        RocksIterator carts = database.newIterator();
        carts.seek(cart);
        if (Load.leaks()) {
            Load.leaked(0);
        } else {
            carts.close();
        }
    }

    private void save(int cart) throws RocksDBException {
        try (WriteBatch batch = new WriteBatch()) {
            batch.put(key(cart), ITEMS);
            database.write(writing, batch);
        }
    }

    private static void remove(Path folder) {
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        } catch (IOException gone) {
            // There is nothing left to remove.
        }
    }

    public static void main(String[] args) throws InterruptedException, IOException, RocksDBException {
        Path folder = Files.createTempDirectory("carts");
        Runtime.getRuntime().addShutdownHook(new Thread(() -> remove(folder)));
        Load.run(args, 100, new Carts(folder)::change);
    }
}
