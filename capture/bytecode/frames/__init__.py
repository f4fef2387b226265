"""Frames and the instructions that run in them."""
