"""model.py, backward.py and check.py: statements as values, printed once."""
