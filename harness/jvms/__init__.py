"""JVMs to start: the zoo of leaks, JVMs that wait, JVMs that hold a known amount of memory."""
