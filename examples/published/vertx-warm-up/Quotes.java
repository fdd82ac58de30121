package com.example.quotes;

import com.example.load.Http;
import com.example.load.Load;
import com.github.luben.zstd.ZstdCompressCtx;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.http.HttpServerRequest;
import java.util.concurrent.ExecutionException;

/** A Vert.x server that warms up under load and compresses its answers; the leaking twin closes no compressor. */
public final class Quotes {
    private static final byte[] TEXT = "a penny saved is a penny earned; ".repeat(40).getBytes();

    static void answer(HttpServerRequest request) {
        request.response().end(Buffer.buffer(compress(request.path())));
    }

    private static byte[] compress(String path) {
        ZstdCompressCtx context = new ZstdCompressCtx().setLevel(1 + path.length() % 2);
        byte[] packed = context.compress(TEXT);
        if (Load.leaks()) {
            Load.leaked(0);
        } else {
            context.close();
        }
        return packed;
    }

    public static void main(String[] args) throws InterruptedException, ExecutionException {
        Vertx vertx = Vertx.vertx(new VertxOptions().setEventLoopPoolSize(2));
        HttpServer server =
                vertx.createHttpServer(new HttpServerOptions().setHost("127.0.0.1").setPort(0))
                        .requestHandler(Quotes::answer)
                        .listen()
                        .toCompletionStage()
                        .toCompletableFuture()
                        .get();
        Load.run(args, 25, number -> Http.get(server.actualPort(), "/quote/" + number % 100));
    }
}
