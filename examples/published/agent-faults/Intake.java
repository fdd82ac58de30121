package com.example.intake;

import com.example.load.Load;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonSyntaxException;

/** Takes in documents, many of them broken, while a native agent counts exceptions: the leak, if any, is the agent's. */
public final class Intake {
    private volatile int rejected;

    void accept(long number) {
        String text = "{\"number\": " + number + ", \"text\": \"" + "word ".repeat(20) + "\"}";
        try {
            JsonObject document = JsonParser.parseString(text).getAsJsonObject();
            check(document);
        } catch (JsonSyntaxException broken) {
            rejected++;
        }
        if (Load.leaks()) {
            Load.leaked(0);
        }
    }

    private static void check(JsonObject document) {
        throw new JsonSyntaxException("document " + document + " has no author");
    }

    public static void main(String[] args) throws InterruptedException {
        Load.run(args, 800, new Intake()::accept);
    }
}
