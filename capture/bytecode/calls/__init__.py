"""Calls: of the user's functions, of torch's, and of Python's own."""
