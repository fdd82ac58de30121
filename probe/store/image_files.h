/* Files of modules, held open for the recorder: Java libraries delete their native part when it is loaded. */
#ifndef OFFHEAP_IMAGE_FILES_H
#define OFFHEAP_IMAGE_FILES_H

#include <stdint.h>

/* Each function writes offheap_module.image, so the live file must stay mapped meanwhile. */

/* A recording starts and its modules have rows: copies the memory of those whose file is deleted already. */
void image_files_start(void);
/* Modules may have come: opens their files. */
void image_files_follow(void);
/* Closes files that nobody has deleted in ten seconds: the recorder can open these by name. */
void image_files_settle(void);

/* Closes all files. */
void image_files_stop(void);

#endif
