"""JVMs of every kind that run with and without the probe."""
