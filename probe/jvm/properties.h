/* Identifies the recorded process by PROPERTIES: the command line, and the JVM's own properties. */
#ifndef OFFHEAP_PROPERTIES_H
#define OFFHEAP_PROPERTIES_H

#include "jvm/jvmti.h"

/* "cmdline", its arguments separated by 0x1f, and the variables from which a JVM takes options. */
void properties_of_process(void);
/* java.version and similar properties.  Calls System.getProperty, so only on the agent thread. */
void properties_of_java(JNIEnv *env);

#endif
