package com.example.sensors;

import com.example.load.Load;
import com.sun.jna.Memory;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * Takes a block of native memory for each reading of a sensor. All are freed in batches, when a collection finds them
 * dropped; the leaking twin keeps one of four.
 */
public final class Readings {
    private static final int BYTES = 4096;
    private final Queue<Memory> alarms = new ConcurrentLinkedQueue<>();

    void store(long number) {
        Memory reading = new Memory(BYTES);
        for (int offset = 0; offset < BYTES; offset += 8) {
            reading.setLong(offset, number);
        }
        if (number % 4 == 0 && Load.leaks()) {
            alarms.add(reading);
            Load.leaked(BYTES);
        }
    }

    public static void main(String[] args) throws InterruptedException {
        Load.run(args, 300, new Readings()::store);
    }
}
