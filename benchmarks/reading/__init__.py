"""How fast other tools' files are read, and how much memory it takes."""
