"""The folder on disk: its files, its lock, what is merged and written, and how it is loaded."""
