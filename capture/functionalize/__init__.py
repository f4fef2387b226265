"""From traced calls to a functional, canonical graph."""
