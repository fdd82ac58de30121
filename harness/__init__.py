"""Helpers for tests that are no part of the package: other Pythons, other JDKs, a Debian of their own."""
