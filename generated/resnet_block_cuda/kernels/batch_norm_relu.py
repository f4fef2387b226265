"""batch_norm_relu: out = relu(batch_norm(conv1)).

    ResNetBlock.forward    out = F.relu(self.bn1(self.conv1(x)))

In PyTorch calls, those of its reference: as a kernel it does not compile for sm_90.
"""

import torch

from ..runtime import fill, window


def batch_norm_relu(conv1, running_mean, running_var, weight, bias, out, n_rows, n_cols, eps):
    """Fills out."""
    fill(
        (window(out, (n_rows, n_cols), (n_cols, 1)),),
        reference(
            window(conv1, (n_rows, n_cols), (n_cols, 1)),
            window(running_mean, (n_cols,), (1,)),
            window(running_var, (n_cols,), (1,)),
            window(weight, (n_cols,), (1,)),
            window(bias, (n_cols,), (1,)),
            eps,
        ),
    )


def reference(conv1, running_mean, running_var, weight, bias, eps):
    """What batch_norm_relu() must fill out with."""
    return torch.relu((conv1 - running_mean) * torch.rsqrt(running_var + eps) * weight + bias)
