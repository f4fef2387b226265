"""Whose memory is whose: lifetimes, aliases, buffers that are used again."""
