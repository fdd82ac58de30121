package com.example.ranking;

import com.example.load.Load;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.bytedeco.javacpp.FloatPointer;

/**
 * Builds a vector of features for each request. JavaCPP frees a dropped pointer by a PhantomReference; the leaking twin
 * keeps them for a training set that nobody reads.
 */
public final class Features {
    private static final int LENGTH = 2048;
    private final Queue<FloatPointer> trainingSet = new ConcurrentLinkedQueue<>();

    void rank(long request) {
        FloatPointer vector = new FloatPointer(LENGTH);
        for (int i = 0; i < LENGTH; i++) {
            vector.put(i, request % (i + 1));
        }
        if (Load.leaks()) {
            trainingSet.add(vector);
            Load.leaked(LENGTH * Float.BYTES);
        }
    }

    public static void main(String[] args) throws InterruptedException {
        Load.run(args, 60, new Features()::rank);
    }
}
