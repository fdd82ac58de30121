"""Profiles for a profile server: destinations, delivery, and profiles that wait while the server is away."""
