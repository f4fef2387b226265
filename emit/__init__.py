"""Emit: a named plan becomes text and the generated unit on disk."""
