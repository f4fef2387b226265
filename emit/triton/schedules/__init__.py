"""The functions of a Triton kernel, one module for each kernel schedule, called as it is."""
