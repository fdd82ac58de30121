package com.example.ledger;

import com.example.load.Load;
import java.io.File;
import java.io.IOException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Random;

/**
 * Reads accounts at random from a table of 24 MB through a page cache of 16 MB, which fills ever slower. The leaking
 * twin does not close its statements.
 */
public final class Ledger {
    private static final int ROWS = 24_000;
    private final Connection connection;
    private final Random random = new Random(7);

    Ledger(File file) throws SQLException {
        connection = DriverManager.getConnection("jdbc:sqlite:" + file);
        try (Statement statement = connection.createStatement()) {
            statement.execute("PRAGMA cache_size = -16384");
            statement.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, text BLOB)");
            statement.execute(
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " + ROWS + ")"
                            + " INSERT INTO account SELECT i, randomblob(1000) FROM n");
            statement.execute("PRAGMA shrink_memory");
        }
    }

    synchronized void read(long number) throws SQLException {
        PreparedStatement statement = connection.prepareStatement("SELECT text FROM account WHERE id = ?");
        for (int i = 0; i < 5; i++) {
            statement.setInt(1, 1 + random.nextInt(ROWS));
            try (ResultSet rows = statement.executeQuery()) {
                rows.next();
            }
        }
        if (Load.leaks()) {
            Load.leaked(0);
        } else {
            statement.close();
        }
    }

    public static void main(String[] args) throws InterruptedException, IOException, SQLException {
        File file = File.createTempFile("ledger", ".db");
        file.deleteOnExit();
        Load.run(args, 100, new Ledger(file)::read);
    }
}
