"""The backward pass, derived ahead of time: a captured graph becomes a forward and a backward graph."""
