#include "guard/thread_state.h"

_Thread_local struct thread_state self;
