"""Functions that several of the user's modules share: which do the same, what it is called, and calls as loops."""
