package com.example.exports;

import com.example.load.Http;
import com.example.load.Load;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.io.ByteBufferPool;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.AbstractHandler;

/** Builds exports in direct buffers of Jetty's pool; the leaking twin keeps those of aborted exports. */
public final class Exports {
    private static final int BYTES = 12288; // no size that Jetty itself takes

    static final class ExportHandler extends AbstractHandler {
        private final Queue<ByteBuffer> aborted = new ConcurrentLinkedQueue<>();

        @Override
        public void handle(
                String target, Request base, HttpServletRequest request, HttpServletResponse response)
                throws IOException {
            ByteBufferPool pool = base.getHttpChannel().getConnector().getByteBufferPool();
            ByteBuffer buffer = buildExport(pool);
            response.getOutputStream().write(buffer.get(0));
            base.setHandled(true);
            if (Load.leaks()) {
                aborted.add(buffer);
                Load.leaked(buffer.capacity());
            } else {
                pool.release(buffer);
            }
        }

        private ByteBuffer buildExport(ByteBufferPool pool) {
            ByteBuffer buffer = pool.acquire(BYTES, true);
            buffer.clear();
            while (buffer.remaining() >= 8) {
                buffer.putLong(buffer.position());
            }
            return buffer;
        }
    }

    public static void main(String[] args) throws Exception {
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server, 1, 1);
        connector.setHost("localhost");
        server.addConnector(connector);
        server.setHandler(new ExportHandler());
        server.start();
        int port = connector.getLocalPort();
        Load.run(args, 60, number -> Http.get(port, "/export?" + number));
    }
}
