"""decay_step_size_and_root_correction: step, root_correction, decay and step_size:
    step = step + 1.0
    root_correction = sqrt(1.0 - BETA2**step)
    decay = 1.0 - lr * DECAY
    step_size = lr / (1.0 - BETA1**step)

    adamw    step += 1
    adamw    decay = 1 - lr * DECAY
    adamw    step_size = lr / (1 - BETA1**step)
    adamw    root_correction = (1 - BETA2**step).sqrt()

Reads step and lr once, writes step, root_correction, decay and step_size once.
"""

import torch
import triton
import triton.language as tl

from ..runtime import fast_launch, libdevice

BETA2 = tl.constexpr(0.999)
DECAY = tl.constexpr(0.01)
BETA1 = tl.constexpr(0.9)

# Tunables.
NUM_WARPS = 1


@fast_launch
@triton.jit
def decay_step_size_and_root_correction_kernel(
    lr_ptr,  # float32, one element
    step_ptr,  # float32, one element
    root_correction_ptr,  # float32, one element
    decay_ptr,  # float32, one element
    step_size_ptr,  # float32, one element
):
    """The only program computes the one element."""
    step = tl.load(step_ptr)
    lr = tl.load(lr_ptr)
    new_step = step + 1.0

    tl.store(step_ptr, new_step)
    tl.store(root_correction_ptr, tl.sqrt_rn(1.0 - libdevice.pow(BETA2, new_step)))
    tl.store(decay_ptr, 1.0 - lr * DECAY)
    tl.store(step_size_ptr, tl.div_rn(lr, 1.0 - libdevice.pow(BETA1, new_step)))


def decay_step_size_and_root_correction(lr, step, root_correction, decay, step_size):
    """Fill root_correction, decay and step_size and update step in place."""
    decay_step_size_and_root_correction_kernel[(1,)](
        lr,
        step,
        root_correction,
        decay,
        step_size,
        num_warps=NUM_WARPS,
    )


def reference(lr, step):
    """What decay_step_size_and_root_correction() must fill its results with."""
    new_step = step + 1.0
    return (
        new_step,
        torch.sqrt(1.0 - torch.pow(0.999, new_step)),
        1.0 - lr * 0.01,
        lr / (1.0 - torch.pow(0.9, new_step)),
    )
