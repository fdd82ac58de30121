package com.example.shop;

import com.example.shop.checkout.Checkout;
import com.example.shop.pricing.PriceImport;
import com.example.shop.visitors.Visitors;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * A small shop: it sells, and it asks its suppliers for new prices. One of the two leaks native memory.
 * It is open for as many seconds as its first argument says. With "visitors" as the second one it receives visitors,
 * who leak Java objects.
 */
public final class Shop {
    public static void main(String[] args) throws InterruptedException {
        ScheduledExecutorService executor = Executors.newScheduledThreadPool(3);
        Checkout checkout = new Checkout();
        PriceImport prices = new PriceImport();
        executor.scheduleAtFixedRate(checkout::sell, 0, 5, TimeUnit.MILLISECONDS);
        executor.scheduleAtFixedRate(checkout::sell, 2, 5, TimeUnit.MILLISECONDS);
        executor.scheduleAtFixedRate(prices::askNextSupplier, 0, 4, TimeUnit.MILLISECONDS);
        if (args.length > 1 && args[1].equals("visitors")) {
            executor.scheduleAtFixedRate(new Visitors()::receiveNextVisitor, 0, 4, TimeUnit.MILLISECONDS);
            // A server's heap is collected as a whole within minutes or hours, which is too long for a demo.
            executor.scheduleAtFixedRate(System::gc, 3, 3, TimeUnit.SECONDS);
        }
        TimeUnit.SECONDS.sleep(Long.parseLong(args[0]));
        System.exit(0);
    }
}
