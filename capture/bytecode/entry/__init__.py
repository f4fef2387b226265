"""What runs instead of a frame: guards, the graph, side effects, and where it resumes."""
