"""What recording costs: time, memory and disk."""
