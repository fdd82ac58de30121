package com.example.peers;

import com.example.load.Load;
import java.nio.ByteBuffer;
import java.security.GeneralSecurityException;
import java.security.cert.X509Certificate;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLException;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;
import org.conscrypt.Conscrypt;

/** Starts a handshake with each peer by Conscrypt, whose finalizers free dropped engines; the leaking twin keeps them. */
public final class Peers {
    private final Queue<SSLEngine> unreachable = new ConcurrentLinkedQueue<>();
    private final SSLContext context;

    /** Peers know each other by other means than certificates. */
    static final class Anyone implements X509TrustManager {
        @Override
        public void checkClientTrusted(X509Certificate[] chain, String type) {}

        @Override
        public void checkServerTrusted(X509Certificate[] chain, String type) {}

        @Override
        public X509Certificate[] getAcceptedIssuers() {
            return new X509Certificate[0];
        }
    }

    Peers() throws GeneralSecurityException {
        context = SSLContext.getInstance("TLS", Conscrypt.newProvider());
        context.init(null, new TrustManager[] {new Anyone()}, null);
    }

    void greet(long peer) throws SSLException {
        SSLEngine engine = context.createSSLEngine("peer" + peer + ".example.com", 443);
        engine.setUseClientMode(true);
        engine.beginHandshake();
        engine.wrap(ByteBuffer.allocate(0), ByteBuffer.allocate(engine.getSession().getPacketBufferSize()));
        if (Load.leaks()) {
            unreachable.add(engine);
            Load.leaked(0);
        }
    }

    public static void main(String[] args) throws InterruptedException, GeneralSecurityException {
        Load.run(args, 20, new Peers()::greet);
    }
}
