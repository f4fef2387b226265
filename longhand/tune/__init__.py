"""How long kernels take, and the search for better tunables."""
