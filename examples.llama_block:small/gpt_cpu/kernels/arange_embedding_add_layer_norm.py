"""arange_embedding_add_layer_norm: x and ln_1 from tokens, weight, position_embedding_weight and others, in one kernel, row by row. Built from arange_embedding_add_layer_norm.cpp."""

import torch
import torch.nn.functional as F

from ..runtime import load_kernel

arange_embedding_add_layer_norm = load_kernel("arange_embedding_add_layer_norm.cpp")


def reference(tokens, weight, position_embedding_weight, ln_1_weight, bias, n_cols, table_size, eps):
    """What arange_embedding_add_layer_norm() must fill x and ln_1 with."""
    weight_value = torch.where(
        (tokens >= 0) & (tokens < table_size),
        weight[
            torch.where(
                (tokens >= 0) & (tokens < table_size),
                torch.arange(n_cols, device=tokens.device) + tokens * n_cols,
                0,
            )
        ],
        torch.nan,
    )
    total = weight_value + position_embedding_weight
    return total, F.layer_norm(total, ln_1_weight.shape, ln_1_weight, bias, eps)
