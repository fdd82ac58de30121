"""Programs under a profiling jemalloc: which library, its settings, its dumps, and a JVM's names beside them."""
