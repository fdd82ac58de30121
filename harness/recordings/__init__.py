"""Live files and recordings made by hand, and replays of them."""
