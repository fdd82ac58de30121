package com.example.scores;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import com.example.load.Load;

/** Makes an input tensor for each customer to score; the leaking twin does not close it. */
public final class Scores {
    private static final int FEATURES = 512;
    private final OrtEnvironment environment = OrtEnvironment.getEnvironment();
    private volatile long size;

    void score(long customer) throws OrtException {
        float[][] features = new float[1][FEATURES];
        features[0][(int) (customer % FEATURES)] = 1;
        OnnxTensor input = OnnxTensor.createTensor(environment, features);
        size = input.getInfo().getShape()[1];
        if (Load.leaks()) {
            Load.leaked(0);
        } else {
            input.close();
        }
    }

    public static void main(String[] args) throws InterruptedException {
        Load.run(args, 200, new Scores()::score);
    }
}
