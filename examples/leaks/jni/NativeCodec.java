package leaks;

/**
 * A JNI library that leaks in five ways: malloc, one found by dlsym, mmap on its own thread, global references to ever
 * more objects, and to one object again and again, which costs nothing but the references.
 */
public final class NativeCodec {
    /** 64 references share a block of some 590 bytes. */
    private static final int HANDLE_BYTES = 9;

    static {
        System.loadLibrary("codec");
    }

    public static void main(String[] args) throws Exception {
        String way = System.getProperty("way", "malloc");
        switch (way) {
            case "malloc":
                Exhibit.run(args, 500, NativeCodec::decodeFrame);
                break;
            case "dlsym":
                Exhibit.run(args, 500, NativeCodec::decodeThroughTable);
                break;
            case "mmap":
                startPrefetcher();
                Exhibit.run(args, 20, NativeCodec::requestPrefetch);
                break;
            case "global":
                Exhibit.run(args, 40, NativeCodec::listen);
                break;
            case "handles":
                // A reference takes some 9 bytes of HotSpot's OopStorage: 6 KB a second.
                Exhibit.run(args, 650, NativeCodec::listenAgain);
                break;
            default:
                throw new IllegalArgumentException("-Dway=malloc, dlsym, mmap, global or handles, not " + way);
        }
    }

    private static void decodeFrame() {
        Exhibit.leaked(decode(2000));
    }

    private static void decodeThroughTable() {
        Exhibit.leaked(decodeWithAllocatorTable(3000));
    }

    private static void requestPrefetch() {
        Exhibit.leaked(prefetch());
    }

    private static void listen() {
        byte[] listener = new byte[20_000];
        addListener(listener);
        Exhibit.leaked(listener.length);
        Collections.nowAndThen();
    }

    private static final Object LISTENER = new Object();

    private static void listenAgain() {
        addListener(LISTENER);
        Exhibit.leaked(HANDLE_BYTES);
    }

    /** Keeps a global reference, which nobody deletes. */
    private static native void addListener(Object listener);

    /** Each returns the bytes that it leaked, in one block. */
    private static native long decode(long bytes);

    private static native long decodeWithAllocatorTable(long bytes);

    private static native void startPrefetcher();

    private static native long prefetch();
}
