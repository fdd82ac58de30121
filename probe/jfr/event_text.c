#include "jfr/event_text.h"

#include <stdbool.h>
#include <string.h>

enum {
    EVENT_SEPARATOR = 0x1E,
    FIELD_SEPARATOR = 0x1F,
    MOST_DIGITS = 18, /* any such number fits an int64_t */
};

static bool continues(unsigned char byte, unsigned char low, unsigned char high) { return byte >= low && byte <= high; }

/* Bytes of the character at `text`, 0 if JNI's NewStringUTF must not see it.  Reads no further than the NUL. */
static unsigned character(const unsigned char *text) {
    unsigned char first = text[0];
    if ((first >= 0x20 && first < 0x7F) || first == '\n') return 1;
    if (first >= 0xC2 && first <= 0xDF) return continues(text[1], 0x80, 0xBF) ? 2 : 0;
    if (first < 0xE0 || first > 0xEF) return 0;
    /* Neither a character that fits two bytes nor half of a surrogate pair. */
    unsigned char low = first == 0xE0 ? 0xA0 : 0x80, high = first == 0xED ? 0x9F : 0xBF;
    return continues(text[1], low, high) && continues(text[2], 0x80, 0xBF) ? 3 : 0;
}

static bool is_text(const char *text) {
    while (*text) {
        unsigned bytes = character((const unsigned char *)text);
        if (!bytes) return false;
        text += bytes;
    }
    return true;
}

static bool parse_number(const char *text, int64_t *number) {
    bool negative = *text == '-';
    const char *digits = text + negative, *at = digits;
    int64_t value = 0;
    for (; *at >= '0' && *at <= '9' && at - digits < MOST_DIGITS; at++) value = value * 10 + (*at - '0');
    *number = negative ? -value : value;
    return at > digits && !*at;
}

/* Cuts `*rest` after its first part and moves it to the next one, NULL after the last. */
static char *cut(char **rest, int separator) {
    char *part = *rest, *end = strchr(part, separator);
    if (end) *end = 0;
    *rest = end ? end + 1 : NULL;
    return part;
}

static bool parse_event(char *text, struct event *event) {
    const char *digit = cut(&text, FIELD_SEPARATOR);
    if (*digit < '0' || *digit >= '0' + EVENT_CLASSES || digit[1]) return false;
    event->class = (unsigned)(*digit - '0');
    const struct event_class *class = &event_classes[event->class];
    for (unsigned i = 0; i < class->field_count; i++) {
        if (!text) return false;
        const char *field = cut(&text, FIELD_SEPARATOR);
        union event_value *value = &event->values[i];
        if (class->fields[i].type == FIELD_TEXT) {
            if (!is_text(field)) return false;
            value->text = field;
        } else if (!parse_number(field, &value->number)) return false;
    }
    return !text;
}

int events_parse(char *text, struct event events[EVENTS_AT_ONCE]) {
    int count = 0;
    for (char *rest = text; rest; count++)
        if (count == EVENTS_AT_ONCE || !parse_event(cut(&rest, EVENT_SEPARATOR), &events[count])) return -1;
    return count;
}
