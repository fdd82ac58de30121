package com.example.catalogue;

import com.example.load.Load;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import org.lmdbjava.Cursor;
import org.lmdbjava.Dbi;
import org.lmdbjava.DbiFlags;
import org.lmdbjava.Env;
import org.lmdbjava.GetOp;
import org.lmdbjava.Txn;

/** Looks articles up in LMDB, whose file is mapped page by page; the leaking twin does not close its cursors. */
public final class Catalogue {
    private static final int ARTICLES = 20_000;
    private final Env<ByteBuffer> environment;
    private final Dbi<ByteBuffer> articles;

    Catalogue(File folder) {
        environment = Env.create().setMapSize(64 << 20).setMaxDbs(1).setMaxReaders(8).open(folder);
        articles = environment.openDbi("articles", DbiFlags.MDB_CREATE);
        ByteBuffer value = ByteBuffer.allocateDirect(500);
        try (Txn<ByteBuffer> writing = environment.txnWrite()) {
            for (int number = 0; number < ARTICLES; number++) {
                articles.put(writing, key(number), value.duplicate());
            }
            writing.commit();
        }
    }

    private static ByteBuffer key(long number) {
        return ByteBuffer.allocateDirect(8).putLong(number).flip();
    }

    synchronized void lookUp(long number) {
        try (Txn<ByteBuffer> reading = environment.txnRead()) {
            Cursor<ByteBuffer> cursor = articles.openCursor(reading);
            cursor.get(key(number % ARTICLES), GetOp.MDB_SET_RANGE);
            if (Load.leaks()) {
                Load.leaked(0);
            } else {
                cursor.close();
            }
        }
    }

    public static void main(String[] args) throws InterruptedException, IOException {
        Path folder = Files.createTempDirectory("catalogue");
        Load.run(args, 800, new Catalogue(folder.toFile())::lookUp);
    }
}
