"""Sums of gradients: slices that fill a tensor are joined, products are added where their total lies."""
