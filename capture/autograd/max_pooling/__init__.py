"""Max pooling in training: which place of each window won, in few bytes."""
