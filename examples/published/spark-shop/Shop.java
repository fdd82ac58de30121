package com.example.store;

import com.example.load.Http;
import com.example.load.Load;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.File;
import java.io.IOException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import org.sqlite.SQLiteConnection;
import spark.Service;

/**
 * A shop of Spark routes over SQLite in a pool of connections, which warms up under load. The leaking twin takes its
 * statements from the pooled connection's inside, so the pool does not close them.
 */
public final class Shop {
    static final class Articles {
        private static final String ARTICLE_AND_NEXT =
                "SELECT a.name, n.name, n.price - a.price FROM article a JOIN article n ON n.id > a.id"
                        + " WHERE a.id = ? ORDER BY n.price LIMIT 1";
        private final HikariDataSource pool;

        Articles(File file) throws SQLException {
            HikariConfig config = new HikariConfig();
            config.setJdbcUrl("jdbc:sqlite:" + file);
            config.setMaximumPoolSize(2);
            pool = new HikariDataSource(config);
            try (Connection connection = pool.getConnection();
                    Statement statement = connection.createStatement()) {
                statement.execute("CREATE TABLE article (id INTEGER PRIMARY KEY, name TEXT, price INTEGER)");
                statement.execute(
                        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)"
                                + " INSERT INTO article SELECT i, hex(randomblob(100)), i FROM n");
            }
        }

        String find(int id) throws SQLException {
            try (Connection connection = pool.getConnection()) {
                SQLiteConnection inner = connection.unwrap(SQLiteConnection.class);
                PreparedStatement statement = inner.prepareStatement(ARTICLE_AND_NEXT);
                statement.setInt(1, id);
                String name;
                try (ResultSet rows = statement.executeQuery()) {
                    name = rows.next() ? rows.getString(1) : "";
                }
                if (Load.leaks()) {
                    Load.leaked(0);
                } else {
                    statement.close();
                }
                return name;
            }
        }
    }

    public static void main(String[] args) throws InterruptedException, IOException, SQLException {
        Articles articles = new Articles(File.createTempFile("shop", ".db"));
        Service http = Service.ignite().ipAddress("127.0.0.1").port(0).threadPool(8, 4, 10_000);
        http.get("/article/:id", (request, response) -> articles.find(Integer.parseInt(request.params(":id"))));
        http.awaitInitialization();
        int port = http.port();
        Load.run(args, 60, number -> Http.get(port, "/article/" + (1 + number % 2000)));
    }
}
