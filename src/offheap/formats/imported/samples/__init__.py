"""Totals by call stack: pprof, collapsed stacks."""
