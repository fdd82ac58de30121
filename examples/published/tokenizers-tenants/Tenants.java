package com.example.tenants;

import ai.djl.huggingface.tokenizers.HuggingFaceTokenizer;
import com.example.load.Load;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/** Loads a tenant's tokenizer for each request, which a finalizer frees; the leaking twin keeps them. */
public final class Tenants {
    private final byte[] model;
    private final Queue<HuggingFaceTokenizer> loaded = new ConcurrentLinkedQueue<>();
    private volatile long tokens;

    Tenants() {
        StringBuilder words = new StringBuilder();
        for (int word = 0; word < 500; word++) {
            words.append(", \"word").append(word).append("\": ").append(word + 1);
        }
        model =
                ("{\"version\": \"1.0\", \"added_tokens\": [], \"pre_tokenizer\": {\"type\": \"Whitespace\"},"
                                + " \"model\": {\"type\": \"WordLevel\", \"unk_token\": \"?\", \"vocab\": {\"?\": 0"
                                + words
                                + "}}}")
                        .getBytes();
    }

    void tokenize(long request) throws IOException {
        HuggingFaceTokenizer tokenizer =
                HuggingFaceTokenizer.newInstance(new ByteArrayInputStream(model), Map.of());
        tokens = tokenizer.encode("word1 word2 word" + request % 500).getIds().length;
        if (Load.leaks()) {
            loaded.add(tokenizer);
            Load.leaked(0);
        }
    }

    public static void main(String[] args) throws InterruptedException {
        Load.run(args, 6, new Tenants()::tokenize);
    }
}
