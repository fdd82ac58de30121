"""Programs of known truth, the verdicts on them, and their tables."""
