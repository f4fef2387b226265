"""What the forward pass keeps for the backward, and what the backward computes again."""
