"""JFR files (Java Flight Recorder's format, version 2): chunks, their types, constants and events."""
