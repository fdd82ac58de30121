/* Keeps files of modules open for the recorder: Java libraries delete their native part once it is loaded. */
#ifndef OFFHEAP_IMAGE_FILES_H
#define OFFHEAP_IMAGE_FILES_H

#include <stdint.h>

/* Each function writes offheap_module.image, so the live file must stay mapped during the call. */

/* Call it when a recording starts and its modules have rows: copies the memory of modules whose file is deleted. */
void image_files_start(void);
/* Opens the files of new modules. */
void image_files_follow(void);
/* Closes files that still exist after ten seconds: the recorder can open these by name. */
void image_files_settle(void);

/* Closes all files. */
void image_files_stop(void);

#endif
