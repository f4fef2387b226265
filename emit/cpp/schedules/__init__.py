"""The body of a C++ kernel, one module for each kernel schedule, called as it is."""
