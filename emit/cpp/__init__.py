"""The printer of C++ kernels."""
