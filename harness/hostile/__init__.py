"""Hostile surroundings: names, processes, small places, forbidden system calls."""
