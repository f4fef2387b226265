"""From sources and roles to unique names: what everything in a unit is called."""
