"""Programs under a profiling jemalloc: the library, its settings, its dumps, a JVM's names beside them."""
