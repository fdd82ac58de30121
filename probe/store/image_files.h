/* Files of modules, held open for the recorder: Java libraries delete their native part once it is loaded. */
#ifndef OFFHEAP_IMAGE_FILES_H
#define OFFHEAP_IMAGE_FILES_H

#include <stdint.h>

/* Each writes offheap_module.image, so the live file must stay mapped meanwhile. */

/* A recording starts and its modules have rows: of those whose file is gone already, what their memory has is copied. */
void image_files_start(void);
/* Modules may have come: their files are opened. */
void image_files_follow(void);
/* Closes files that nobody has deleted in ten seconds: the recorder can open them by name. */
void image_files_settle(void);

/* Closes all. */
void image_files_stop(void);

#endif
