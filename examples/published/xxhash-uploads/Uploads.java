package com.example.uploads;

import com.example.load.Load;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import net.jpountz.xxhash.StreamingXXHash64;
import net.jpountz.xxhash.XXHashFactory;

/** Fingerprints uploads with a hasher each, which a finalizer frees; the leaking twin forgets none of them. */
public final class Uploads {
    private static final int STATE_BYTES = 88; // sizeof(XXH64_state_t)
    private final XXHashFactory hashes = XXHashFactory.nativeInstance();
    private final Map<Long, StreamingXXHash64> pending = new ConcurrentHashMap<>();
    private volatile long last;

    void accept(long upload) {
        byte[] part = Long.toBinaryString(upload).getBytes();
        StreamingXXHash64 hash = hashes.newStreamingHash64(upload);
        hash.update(part, 0, part.length);
        last = hash.getValue();
        if (Load.leaks()) {
            pending.put(upload, hash);
            Load.leaked(STATE_BYTES);
        }
    }

    public static void main(String[] args) throws InterruptedException {
        Load.run(args, 2500, new Uploads()::accept);
    }
}
