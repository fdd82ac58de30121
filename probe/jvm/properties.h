/* Who is recorded: the command line and what the JVM says about itself, as PROPERTIES. */
#ifndef OFFHEAP_PROPERTIES_H
#define OFFHEAP_PROPERTIES_H

#include "jvm/jvmti.h"

/* "cmdline", its arguments separated by 0x1f, and the variables a JVM takes options from. */
void properties_of_process(void);
/* java.version and the like.  Calls System.getProperty, so only on a thread of ours. */
void properties_of_java(JNIEnv *env);

#endif
