/*
 * event_text_fuzz ROUNDS SEED: parses damaged events, and a whole text cut off at every byte.  Built with
 * AddressSanitizer and UBSan: each text has memory of exactly its own size.  Prints how many of the texts were
 * accepted.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "jfr/event_classes.c"
#include "jfr/event_text.c"

static const char whole[] = "0\x1flibz.so\x1fmalloc\x1f"
                            "12345678\x1f"
                            "42\x1f"
                            "99999999\x1e"
                            "1\x1f"
                            "1\x1fleak\x1f"
                            "987654\x1fmalloc\x1f"
                            "com.Foo.b\xc3\xa4r\xe2\x82\xac\x1flibz.so\x1f"
                            "123\x1f"
                            "4\x1f-5\x1finflateInit\nFoo.bar\x1e"
                            "2\x1fjava-heap\x1f"
                            "1000\x1f"
                            "2000";

static uint64_t state;

static uint64_t draw(uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
}

static _Noreturn void wrong(const char *what) {
    puts(what);
    exit(1);
}

/* Every text of an accepted event lies in its copy, and JNI may see it. */
static bool accepted(const char *text, size_t length) {
    char *copy = malloc(length + 1);
    struct event events[EVENTS_AT_ONCE];
    memcpy(copy, text, length);
    copy[length] = 0;
    int count = events_parse(copy, events);
    for (int i = 0; i < count; i++) {
        const struct event_class *class = &event_classes[events[i].class];
        for (unsigned field = 0; field < class->field_count; field++) {
            if (class->fields[field].type != FIELD_TEXT) continue;
            const char *its = events[i].values[field].text;
            if (its < copy || its > copy + length) wrong("a text lies outside");
            for (; *its; its++)
                if ((unsigned char)*its < 0x20 && *its != '\n') wrong("a text has a control character");
        }
    }
    free(copy);
    return count >= 0;
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    uint64_t rounds = strtoull(arguments[1], NULL, 10), taken = 0;
    state = strtoull(arguments[2], NULL, 10) * 2654435761u + 1;
    enum { LENGTH = sizeof whole - 1 };
    if (!accepted(whole, LENGTH)) wrong("the whole text is refused");
    /* A shorter text may be whole if it ends after a digit of an event's last number. */
    for (size_t length = 0; length < LENGTH; length++) accepted(whole, length);
    if (accepted("0", 1) || accepted("3", 1) || accepted("", 0)) wrong("an event without fields is accepted");
    static const char *const bad[] = {
        "2\x1f\xc0\x80\x1f"
        "1\x1f"
        "1", /* NUL, in two bytes */
        "2\x1f\xed\xa0\x80\x1f"
        "1\x1f"
        "1", /* half of a surrogate pair */
        "2\x1f\xf0\x9f\x98\x80\x1f"
        "1\x1f"
        "1",
        "2\x1f\xe2\x82\x1f"
        "1\x1f"
        "1",
        "2\x1f"
        "a\x1f"
        "1000000000000000000\x1f"
        "1",
        "2\x1f"
        "a\x1f-\x1f"
        "1",
        "2\x1f"
        "a\x1f"
        "1\x1f"
        "1\x1f"
        "1",
        "2\x1f"
        "a\tb\x1f"
        "1\x1f"
        "1",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (accepted(bad[i], strlen(bad[i]))) wrong("a wrong event is accepted");
    for (uint64_t round = 0; round < rounds; round++) {
        char text[LENGTH];
        memcpy(text, whole, LENGTH);
        size_t length = draw(4) ? LENGTH : draw(LENGTH);
        for (uint64_t times = draw(4); times-- > 0 && length;) {
            static const char likely[] = "0123\x1e\x1f-\n\xc3\xe2\xed\x80";
            text[draw(length)] = draw(2) ? likely[draw(sizeof likely - 1)] : (char)(1 + draw(255));
        }
        taken += accepted(text, length);
    }
    printf("%llu\n", (unsigned long long)taken);
}
