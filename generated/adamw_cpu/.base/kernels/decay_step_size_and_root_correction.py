"""decay_step_size_and_root_correction: step, root_correction, decay and step_size:
    step = step + 1.0
    root_correction = sqrt(1.0 - BETA2**step)
    decay = 1.0 - lr * DECAY
    step_size = lr / (1.0 - BETA1**step)

The kernel is decay_step_size_and_root_correction.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

decay_step_size_and_root_correction = load_kernel("decay_step_size_and_root_correction.cpp")


def reference(lr, step):
    """What decay_step_size_and_root_correction() must fill its results with."""
    new_step = step + 1.0
    return (
        new_step,
        torch.sqrt(1.0 - torch.pow(0.999, new_step)),
        1.0 - lr * 0.01,
        lr / (1.0 - torch.pow(0.9, new_step)),
    )
