"""How close figures, stacks and owners are to a known truth."""
