"""The printer of Triton kernels."""
