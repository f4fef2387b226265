"""Meanings: what a value is to the formula that it stands in: ``denominator``, ``normalized``, ``scores``."""
