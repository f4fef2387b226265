"""Units made ready to be installed where there is no compiler and no longhand."""
