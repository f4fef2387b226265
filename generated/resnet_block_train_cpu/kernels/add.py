"""add: num_batches_tracked = num_batches_tracked + 1.

The kernel is add.cpp, built when it changes.
"""

from ..runtime import load_kernel

add = load_kernel("add.cpp")


def reference(num_batches_tracked):
    """What add() must fill num_batches_tracked with."""
    return num_batches_tracked + 1
