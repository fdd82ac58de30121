"""Pytest plugins: what runs, what is skipped, what is left behind."""
