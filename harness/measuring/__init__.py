"""What the benchmarks share: the command line, rounds, profiles, tables in documents."""
