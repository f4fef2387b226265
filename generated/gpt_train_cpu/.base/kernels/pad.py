"""pad: d_weight by pad in one pass.

The kernel is pad.cpp, built when it changes.
"""

import torch

from ..runtime import load_kernel

pad = load_kernel("pad.cpp")


def reference(d_position_embedding, n_rows, n_cols, filled_end):
    """What pad() must fill d_weight with."""
    row = torch.arange(n_rows, device=d_position_embedding.device).view(-1, 1)
    col = torch.arange(n_cols, device=d_position_embedding.device)
    at = row * n_cols + col
    return torch.where(row < filled_end, d_position_embedding[torch.where(row < filled_end, at, 0)], 0.0)
