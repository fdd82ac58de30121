/* Text in the live file: interned strings, and properties. */
#ifndef OFFHEAP_STRINGS_H
#define OFFHEAP_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes or empties the private index, for a new live file.  False without memory. */
bool strings_start(bool exact);

/* Interns `length` bytes; returns the offset of the string, 0 when full (counted) or empty. Signal-safe. */
uint32_t live_string(const char *text, size_t length);

/* Sets or replaces a property.  No-op while nothing records. */
void live_property(const char *key, const char *value);

#endif
