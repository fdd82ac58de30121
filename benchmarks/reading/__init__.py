"""What a person waits for: the start of a command, and files of other tools that are read."""
