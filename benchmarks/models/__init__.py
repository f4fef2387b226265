"""Whole models on a GPU, family by family, both parts, small and large: ``python -m benchmarks.models``."""
