/* The event classes that the probe defines in a JVM: their class files and their fields. */
#ifndef OFFHEAP_EVENT_CLASSES_H
#define OFFHEAP_EVENT_CLASSES_H

enum {
    EVENT_CLASSES = 3,
    EVENT_FIELDS = 10, /* the most that one of them has */
};

enum field_type {
    FIELD_TEXT = 'S',
    FIELD_LONG = 'J',
    FIELD_FLOAT = 'F', /* its text is a whole number of millionths */
};

struct event_field {
    char type; /* enum field_type */
    const char *name;
};

struct event_class {
    const char *name; /* as in "offheap/NativeMemory" */
    const unsigned char *bytes;
    unsigned length;
    unsigned field_count;
    struct event_field fields[EVENT_FIELDS];
};

extern const struct event_class event_classes[EVENT_CLASSES];

#endif
