"""How good the verdicts are: simulated programs, real JVMs, published libraries."""
