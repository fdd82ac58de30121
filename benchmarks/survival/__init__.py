"""Whether a JVM survives the probe, and a parser damaged input."""
