"""pad: d_position_embedding = d_position_embedding_out, with zeros after its n_filled rows.

The kernel is pad.cpp, built when it changes.
"""

import torch.nn.functional as F

from ..runtime import load_kernel

pad = load_kernel("pad.cpp")


def reference(d_position_embedding_out, n_rows, n_filled):
    """What pad() must fill d_position_embedding with."""
    return F.pad(d_position_embedding_out, (0, 0, 0, n_rows - n_filled))
