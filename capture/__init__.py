"""Capture: Python code becomes a named, functional ATen graph (capture/graph.py holds the result)."""
