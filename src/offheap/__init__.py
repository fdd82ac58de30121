"""offheap finds where a JVM's memory goes and who leaks it."""

__version__ = "0.1.0"
