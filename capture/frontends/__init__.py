"""Where graphs come from: torch.export, Dynamo, and longhand's own bytecode; and what finishes each."""
