package com.example.tokens;

import com.amazon.corretto.crypto.provider.AmazonCorrettoCryptoProvider;
import com.example.load.Load;
import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/** Makes a key pair for each token; the provider's own reference queue frees dropped keys, the leaking twin keeps them. */
public final class Tokens {
    private final KeyPairGenerator keys;
    private final Queue<KeyPair> issued = new ConcurrentLinkedQueue<>();

    Tokens() throws GeneralSecurityException {
        keys = KeyPairGenerator.getInstance("EC", AmazonCorrettoCryptoProvider.INSTANCE);
        keys.initialize(256);
    }

    void issue(long token) {
        KeyPair pair = generate();
        if (Load.leaks()) {
            issued.add(pair);
            Load.leaked(0);
        }
    }

    private synchronized KeyPair generate() {
        return keys.generateKeyPair();
    }

    public static void main(String[] args) throws InterruptedException, GeneralSecurityException {
        AmazonCorrettoCryptoProvider.INSTANCE.assertHealthy();
        Load.run(args, 500, new Tokens()::issue);
    }
}
