/* Events as text, as a recorder sends them in an attach request.
 *
 *   text   = event *(0x1E event)
 *   event  = digit *(0x1F field)      the digit is an index into event_classes; all fields of that class follow
 *   field  = text of JNI's modified UTF-8 | a decimal number
 *
 * A text has no control character but the newline. */
#ifndef OFFHEAP_EVENT_TEXT_H
#define OFFHEAP_EVENT_TEXT_H

#include <stdint.h>

#include "jfr/event_classes.h"

enum {
    EVENTS_AT_ONCE = 32,
    EVENTS_TEXT_BYTES = 4096, /* JDK 23 and older take 1,024 in a request */
};

union event_value {
    const char *text;
    int64_t number;
};

struct event {
    unsigned class;                         /* an index into event_classes */
    union event_value values[EVENT_FIELDS]; /* by its fields; texts point into the parsed text */
};

/* Splits `text` in place.  Returns the number of events, -1 if an event is wrong or there are too many. */
int events_parse(char *text, struct event events[EVENTS_AT_ONCE]);

#endif
