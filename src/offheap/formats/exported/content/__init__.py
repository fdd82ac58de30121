"""What formats are made of: stacks with whole numbers, as a tree of calls, as blocks over time."""
