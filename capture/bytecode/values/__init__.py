"""Tracked values, their attributes and operators."""
