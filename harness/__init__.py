"""What tests and benchmarks stand on: JVMs to start, simulated recordings, hostile places, peers."""
