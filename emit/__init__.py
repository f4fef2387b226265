"""Emit: a plan becomes names, text and the generated unit on disk."""
