package leaks;

import java.io.IOException;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;

/** A log reader that maps a segment for every query and keeps the mapping. */
public final class MappedBuffers {
    private static final int SIZE = 256 * 1024;
    private static final List<MappedByteBuffer> segments = new ArrayList<>();
    private static FileChannel log;

    public static void main(String[] args) throws Exception {
        Path file = Files.createTempFile("segments", ".log");
        file.toFile().deleteOnExit();
        Files.write(file, new byte[SIZE]);
        log = FileChannel.open(file, StandardOpenOption.READ);
        Exhibit.run(args, 20, MappedBuffers::answerQuery);
    }

    private static void answerQuery() throws IOException {
        segments.add(mapSegment());
    }

    private static MappedByteBuffer mapSegment() throws IOException {
        MappedByteBuffer segment = log.map(FileChannel.MapMode.READ_ONLY, 0, SIZE);
        Exhibit.leaked(SIZE);
        return segment.load();
    }
}
