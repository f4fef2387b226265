"""LlamaBlock as kernels for cpu, float32, inference.

    x   float32 (batch=2, seq=256, dim=256)
    ->  float32 (batch, seq, dim)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch
import torch.nn.functional as F
from torch import nn

from . import kernels
from .runtime import Weights, check_tensor, check_weights, constant, empty, load_constants

constants = load_constants()
N_HEADS = 8
HEAD_DIM = 32
N_KV_HEADS = 2
EPS = 1e-5


class LlamaBlock(nn.Module):
    """Takes the state_dict of examples.llama_block.LlamaBlock."""

    def __init__(self):
        super().__init__()
        self.attention_norm = Weights(weight=(256,))
        self.attention = Weights(
            q_proj=Weights(weight=(256, 256)),
            k_proj=Weights(weight=(64, 256)),
            v_proj=Weights(weight=(64, 256)),
            o_proj=Weights(weight=(256, 256)),
            rotary=Weights(
                cos=constant(constants["attention.rotary.cos"]),
                sin=constant(constants["attention.rotary.sin"]),
            ),
        )
        self.mlp_norm = Weights(weight=(256,))
        self.mlp = Weights(
            gate_proj=Weights(weight=(704, 256)),
            up_proj=Weights(weight=(704, 256)),
            down_proj=Weights(weight=(256, 704)),
        )

    def forward(self, x):
        check_tensor("x", x, dtype=torch.float32, shape=(2, 256, 256), device="cpu")
        check_weights(self, x.device)
        batch, seq, dim = x.shape

        # RMSNorm.forward    return normed.to(x.dtype) * self.weight
        normed = empty(x.shape, torch.float32)
        kernels.rms_norm(x, self.attention_norm.weight, normed, n_rows=batch * seq, n_cols=dim, eps=EPS)

        # attention
        q = F.linear(normed, self.attention.q_proj.weight)
        k = F.linear(normed, self.attention.k_proj.weight)
        v = F.linear(normed, self.attention.v_proj.weight)
        del normed

        # Rotary.forward    rotated = torch.cat([-second, first], dim=-1)
        # Rotary.forward    return x * self.cos[:seq] + rotated * self.sin[:seq]
        rotary_q = empty((batch, seq, N_HEADS, HEAD_DIM), torch.float32).transpose(1, 2)
        kernels.rotary(
            q,
            self.attention.rotary.cos,
            self.attention.rotary.sin,
            rotary_q,
            n_batches=batch,
            n_positions=seq,
            n_heads=N_HEADS,
            head_dim=HEAD_DIM,
            half=HEAD_DIM // 2,
        )
        rotary_k = empty((batch, seq, N_KV_HEADS, HEAD_DIM), torch.float32).transpose(1, 2)
        kernels.rotary(
            k,
            self.attention.rotary.cos,
            self.attention.rotary.sin,
            rotary_k,
            n_batches=batch,
            n_positions=seq,
            n_heads=N_KV_HEADS,
            head_dim=HEAD_DIM,
            half=HEAD_DIM // 2,
        )

        v = v.reshape(batch, seq, N_KV_HEADS, HEAD_DIM).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(rotary_q, rotary_k, v, is_causal=True, enable_gqa=True)
        attention_out = F.linear(mixed.transpose(1, 2).reshape(batch, seq, dim), self.attention.o_proj.weight)

        # LlamaBlock.forward    h = x + self.attention(self.attention_norm(x))
        # RMSNorm.forward    return normed.to(x.dtype) * self.weight
        h = empty(x.shape, torch.float32)
        normed = attention_out  # in place: attention_out is last read here
        kernels.add_and_rms_norm(
            x, attention_out, self.mlp_norm.weight, h, normed, n_rows=batch * seq, n_cols=dim, eps=EPS
        )

        # mlp
        # SwiGLU.forward    gated = F.silu(self.gate_proj(x)) * self.up_proj(x)
        gate_proj_out = F.linear(normed, self.mlp.gate_proj.weight)
        up_proj_out = F.linear(normed, self.mlp.up_proj.weight)
        gated = up_proj_out  # in place: up_proj_out is last read here
        kernels.swiglu(gate_proj_out, up_proj_out, gated, n_elements=gated.numel())
        del gate_proj_out

        mlp_out = F.linear(gated, self.mlp.down_proj.weight)

        # LlamaBlock.forward    return h + self.mlp(self.mlp_norm(h))
        out = mlp_out  # in place: mlp_out is last read here
        kernels.add(h, mlp_out, out, n_elements=out.numel())
        return out
