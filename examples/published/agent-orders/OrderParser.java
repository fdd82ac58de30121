package com.example.parsing;

import com.example.load.Load;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;

/** Parses orders with Jackson while a native agent watches the objects it makes: the leak, if any, is the agent's. */
public final class OrderParser {
    private final ObjectMapper mapper = new ObjectMapper();
    private volatile int items;

    void parse(long order) throws IOException {
        StringBuilder text = new StringBuilder("{\"order\": " + order + ", \"items\": [");
        for (int item = 0; item < 40; item++) {
            text.append(item == 0 ? "" : ",").append("{\"name\": \"item ").append(item).append("\", \"count\": 2}");
        }
        JsonNode tree = mapper.readTree(text.append("]}").toString());
        items = tree.get("items").size();
        if (Load.leaks()) {
            Load.leaked(0);
        }
    }

    public static void main(String[] args) throws InterruptedException {
        Load.run(args, 200, new OrderParser()::parse);
    }
}
