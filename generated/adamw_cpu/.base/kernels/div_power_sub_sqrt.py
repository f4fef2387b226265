"""div_power_sub_sqrt: add, scale, sub, power and more in one pass, from step and lr to step, root_correction
and 2 more.

The kernel is div_power_sub_sqrt.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

div_power_sub_sqrt = load_kernel("div_power_sub_sqrt.cpp")


def reference(lr, step):
    """What div_power_sub_sqrt() must fill step, root_correction, decay and step_size with."""
    shifted_step = step + 1.0
    return (
        shifted_step,
        torch.sqrt(1.0 - torch.pow(0.999, shifted_step)),
        1.0 - lr * 0.01,
        lr / (1.0 - torch.pow(0.9, shifted_step)),
    )
