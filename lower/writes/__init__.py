"""Writes: into part of what the caller gave, at positions that are data, and into slices of stacks."""
