package com.example.reports;

import com.example.load.Http;
import com.example.load.Load;
import io.undertow.Undertow;
import io.undertow.connector.PooledByteBuffer;
import io.undertow.server.DefaultByteBufferPool;
import io.undertow.server.HttpHandler;
import io.undertow.server.HttpServerExchange;
import io.undertow.server.handlers.BlockingHandler;
import java.net.InetSocketAddress;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/** Writes reports into direct buffers of a pool of Undertow's; the leaking twin keeps each third one. */
public final class Reports {
    private static final int BYTES = 16384;

    static final class ReportHandler implements HttpHandler {
        private final DefaultByteBufferPool pool = new DefaultByteBufferPool(true, BYTES);
        private final Queue<PooledByteBuffer> drafts = new ConcurrentLinkedQueue<>();

        @Override
        public void handleRequest(HttpServerExchange exchange) {
            PooledByteBuffer report = write();
            exchange.getResponseSender().send("written");
            if (Load.leaks() && exchange.getQueryString().hashCode() % 3 == 0) {
                drafts.add(report);
                Load.leaked(BYTES);
            } else {
                report.close();
            }
        }

        private PooledByteBuffer write() {
            PooledByteBuffer report = pool.allocate();
            while (report.getBuffer().remaining() >= 8) {
                report.getBuffer().putLong(report.getBuffer().position());
            }
            return report;
        }
    }

    public static void main(String[] args) throws InterruptedException {
        Undertow server =
                Undertow.builder()
                        .setIoThreads(1)
                        .setWorkerThreads(4)
                        .addHttpListener(0, "127.0.0.1")
                        .setHandler(new BlockingHandler(new ReportHandler()))
                        .build();
        server.start();
        int port = ((InetSocketAddress) server.getListenerInfo().get(0).getAddress()).getPort();
        Load.run(args, 100, number -> Http.get(port, "/report?" + number));
    }
}
