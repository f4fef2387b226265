"""Tracked containers and iterators, by Python's own rules."""
