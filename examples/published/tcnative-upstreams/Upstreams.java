package com.example.gateway;

import com.example.load.Load;
import io.netty.buffer.ByteBufAllocator;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import io.netty.handler.ssl.SslProvider;
import io.netty.handler.ssl.util.InsecureTrustManagerFactory;
import io.netty.util.ReferenceCountUtil;
import java.nio.ByteBuffer;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLException;

/** Opens a TLS engine of BoringSSL for each upstream it tries; the leaking twin does not release them. */
public final class Upstreams {
    private final SslContext context;

    Upstreams() throws SSLException {
        context =
                SslContextBuilder.forClient()
                        .sslProvider(SslProvider.OPENSSL_REFCNT)
                        .trustManager(InsecureTrustManagerFactory.INSTANCE)
                        .build();
    }

    void tryUpstream(long number) throws SSLException {
        SSLEngine engine = context.newEngine(ByteBufAllocator.DEFAULT, "upstream.example.com", 443);
        engine.beginHandshake();
        engine.wrap(ByteBuffer.allocate(0), ByteBuffer.allocate(engine.getSession().getPacketBufferSize()));
        if (Load.leaks()) {
            Load.leaked(0);
        } else {
            ReferenceCountUtil.release(engine);
        }
    }

    public static void main(String[] args) throws InterruptedException, SSLException {
        Load.run(args, 40, new Upstreams()::tryUpstream);
    }
}
