"""What becomes one kernel, and what two again: legality, profit, and the rewriting."""
