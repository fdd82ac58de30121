package leaks;

import java.util.HashMap;
import java.util.Map;

/** Remembers each answer under its request in a static map, and no request comes twice. */
public final class StaticMap {
    private static final int LENGTH = 8_000;
    private static final Map<Long, byte[]> answers = new HashMap<>();
    private static final Held held = new Held("leaks.StaticMap.answer", "byte[]");
    private static long request;

    public static void main(String[] args) throws Exception {
        Exhibit.run(args, 100, StaticMap::serve);
    }

    private static void serve() {
        answers.put(request++, answer());
        Collections.nowAndThen();
    }

    private static byte[] answer() {
        byte[] answer = new byte[LENGTH];
        held.add(answer);
        Exhibit.leaked(Sizes.of(answer));
        return answer;
    }
}
