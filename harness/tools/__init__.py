"""Programs that developers run by hand: they measure nothing, and no test needs them."""
