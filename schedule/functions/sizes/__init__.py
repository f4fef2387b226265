"""Sizes in which modules differ that do the same: what tells them, so that one function serves all of them."""
