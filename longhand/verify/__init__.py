"""Units against eager, and kernels against their references."""
