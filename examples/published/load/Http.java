package com.example.load;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.URL;

/** A client of the servers here, by the loopback address; the JDK keeps its connections open. */
public final class Http {
    private Http() {}

    public static int get(int port, String path) throws IOException {
        return exchange(open(port, path));
    }

    public static int post(int port, String path, byte[] body) throws IOException {
        HttpURLConnection connection = open(port, path);
        connection.setDoOutput(true);
        connection.setFixedLengthStreamingMode(body.length);
        try (OutputStream output = connection.getOutputStream()) {
            output.write(body);
        }
        return exchange(connection);
    }

    private static HttpURLConnection open(int port, String path) throws IOException {
        String host = InetAddress.getLoopbackAddress().getHostAddress();
        return (HttpURLConnection) new URL("http", host, port, path).openConnection();
    }

    private static int exchange(HttpURLConnection connection) throws IOException {
        try (InputStream input = connection.getInputStream()) {
            int read = input.readAllBytes().length;
            if (connection.getResponseCode() != HttpURLConnection.HTTP_OK) {
                throw new UncheckedIOException(new IOException("status " + connection.getResponseCode()));
            }
            return read;
        }
    }
}
