"""Native programs and libraries, compiled for a test."""
