"""offheap installed from its wheel, on other Pythons and JDKs."""
