"""increment: num_batches_tracked = num_batches_tracked + 1.

    ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))

Reads num_batches_tracked once, writes num_batches_tracked once.
"""

import triton
import triton.language as tl

from ..runtime import fast_launch

# Tunables.
NUM_WARPS = 1


@fast_launch
@triton.jit
def increment_kernel(
    num_batches_tracked_ptr,  # int64, one element
):
    """The only program computes the one element."""
    num_batches_tracked = tl.load(num_batches_tracked_ptr)
    tl.store(num_batches_tracked_ptr, num_batches_tracked + 1)


def increment(num_batches_tracked):
    """Update num_batches_tracked in place."""
    increment_kernel[(1,)](
        num_batches_tracked,
        num_warps=NUM_WARPS,
    )


def reference(num_batches_tracked):
    """What increment() must fill num_batches_tracked with."""
    return num_batches_tracked + 1
