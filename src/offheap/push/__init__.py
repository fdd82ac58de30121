"""Profiles sent to a server that keeps them: where to, how, and what waits while the server is away."""
