"""Programs under a profiling jemalloc: the library, its settings, its dumps, and a JVM's perf maps."""
