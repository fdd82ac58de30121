package com.example.shop.pricing;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.zip.Inflater;

/** Asks one supplier after the other for new prices, which come compressed. */
public final class PriceImport {
    private final Map<Long, Inflater> openFeeds = new ConcurrentHashMap<>();
    private long requests;

    public void askNextSupplier() {
        long request = requests++;
        Inflater feed = openFeed(request);
        if (hasNoNews(request)) {
            // The bug: on this way out nobody ends the feed, so the native memory of zlib stays.
            return;
        }
        feed.end();
        openFeeds.remove(request);
    }

    private Inflater openFeed(long request) {
        Inflater feed = new Inflater();
        openFeeds.put(request, feed);
        return feed;
    }

    private static boolean hasNoNews(long request) {
        return request % 5 != 0;
    }
}
