/* What identifies the recorded process, as PROPERTIES: the command line, and what the JVM says about itself. */
#ifndef OFFHEAP_PROPERTIES_H
#define OFFHEAP_PROPERTIES_H

#include "jvm/jvmti.h"

/* "cmdline", its arguments separated by 0x1f, and the variables from which a JVM takes options. */
void properties_of_process(void);
/* java.version and similar properties.  Calls System.getProperty, so only on a thread of ours. */
void properties_of_java(JNIEnv *env);

#endif
