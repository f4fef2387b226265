"""Repeated regions of a model as classes and loops, in model.py and backward.py."""
