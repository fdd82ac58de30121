"""Recordings in other programs' formats, a module a format."""
