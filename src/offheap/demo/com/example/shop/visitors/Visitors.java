package com.example.shop.visitors;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Keeps a basket for every visitor until the visitor leaves. */
public final class Visitors {
    private final Map<Long, byte[]> baskets = new ConcurrentHashMap<>();
    private int visits;

    public void receiveNextVisitor() {
        int visitor = visits++;
        openBasket(visitor);
        leave(visitor);
    }

    private void openBasket(int visitor) {
        byte[] basket = new byte[4_000];
        baskets.put((long) visitor, basket);
    }

    private void leave(int visitor) {
        // The bug: the keys are of type Long. This key becomes an Integer, which is equal to none of them.
        baskets.remove(visitor);
    }
}
