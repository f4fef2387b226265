"""What is done to a unit's kernels before the unit is kept: they are compiled, and run once."""
