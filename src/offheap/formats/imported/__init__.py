"""Other tools' memory profiles, read into recordings: a module a format."""
