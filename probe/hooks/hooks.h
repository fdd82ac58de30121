/* The table of hooks.  Attach patches them into GOT slots; preloaded, the same functions interpose by their exported
 * names. */
#ifndef OFFHEAP_HOOKS_H
#define OFFHEAP_HOOKS_H

#include <stdbool.h>

#include "hooks/got.h"
#include "recording.h"

/* The hook of a symbol in OFFHEAP_HOOKS, NULL for any other. */
void *hook_of(const char *symbol);

/* Every hook; the last entry has symbol == NULL.  `exact`: variants that skip the countdown, since a thread may still
 * have a countdown from an earlier, sampled recording. */
const struct got_hook *hooks_to_patch(bool exact);

/* Notes, and tells, that the library was preloaded: then its symbols interpose, and the probe patches no GOT. */
void hooks_note_preload(void);
bool hooks_preloaded(void);

#endif
