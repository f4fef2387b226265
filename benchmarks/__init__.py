"""Side by side with eager and torch.compile."""
