"""Logs of single allocations and frees, which are replayed: mtrace, heaptrack."""
