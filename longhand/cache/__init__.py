"""The folder in which compiled units are kept."""
