"""What runs behind `longhand.compile` and torch.compile's backend."""
