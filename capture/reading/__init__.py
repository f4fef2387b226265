"""Reading a captured graph: its text, and which members of lists of modules read a value."""
