"""Other tools that the benchmarks compare with."""
