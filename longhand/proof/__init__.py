"""What is done to a unit before it is kept: its Python is proven, its kernels are compiled, and run once."""
