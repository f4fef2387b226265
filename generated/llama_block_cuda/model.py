"""LlamaBlock as kernels for cuda (sm_90), bfloat16, inference.

    x   bfloat16 (batch=2, seq=2048, dim=4096)
    ->  bfloat16 (batch, seq, dim)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch
import torch.nn.functional as F
from torch import nn

from . import kernels
from .runtime import Weights, blas, check_tensor, check_weights, constant, load_constants

constants = load_constants()
N_HEADS = 32
HEAD_DIM = 128
N_KV_HEADS = 8
EPS = 1e-5


class LlamaBlock(nn.Module):
    """Takes the state_dict of examples.llama_block.LlamaBlock."""

    def __init__(self):
        super().__init__()
        self.attention_norm = Weights(dtype=torch.bfloat16, weight=(4096,))
        self.attention = Weights(
            q_proj=Weights(dtype=torch.bfloat16, weight=(4096, 4096)),
            k_proj=Weights(dtype=torch.bfloat16, weight=(1024, 4096)),
            v_proj=Weights(dtype=torch.bfloat16, weight=(1024, 4096)),
            o_proj=Weights(dtype=torch.bfloat16, weight=(4096, 4096)),
            rotary=Weights(
                cos=constant(constants["attention.rotary.cos"]),
                sin=constant(constants["attention.rotary.sin"]),
            ),
        )
        self.mlp_norm = Weights(dtype=torch.bfloat16, weight=(4096,))
        self.mlp = Weights(
            gate_proj=Weights(dtype=torch.bfloat16, weight=(14336, 4096)),
            up_proj=Weights(dtype=torch.bfloat16, weight=(14336, 4096)),
            down_proj=Weights(dtype=torch.bfloat16, weight=(4096, 14336)),
        )

    def forward(self, x):
        check_tensor("x", x, dtype=torch.bfloat16, shape=(2, 2048, 4096), device="cuda")
        check_weights(self, x.device)
        batch, seq, dim = x.shape

        # RMSNorm.forward    return normed.to(x.dtype) * self.weight
        normed = torch.empty_like(x)
        kernels.rms_norm(x, self.attention_norm.weight, normed, n_rows=batch * seq, n_cols=dim, eps=EPS)

        # attention
        q = blas.linear(normed, self.attention.q_proj.weight)
        k = blas.linear(normed, self.attention.k_proj.weight)
        v = blas.linear(normed, self.attention.v_proj.weight)
        del normed

        # Rotary.forward    rotated = torch.cat([-second, first], dim=-1)
        # Rotary.forward    return x * self.cos[:seq] + rotated * self.sin[:seq]
        rotary_q = q.new_empty(batch, seq, N_HEADS, HEAD_DIM).transpose(1, 2)
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
        del q
        rotary_k = k.new_empty(batch, seq, N_KV_HEADS, HEAD_DIM).transpose(1, 2)
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
        del k

        v = v.reshape(batch, seq, N_KV_HEADS, HEAD_DIM).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(rotary_q, rotary_k, v, is_causal=True, enable_gqa=True)
        del rotary_q, rotary_k, v
        attention_out = blas.linear(
            mixed.transpose(1, 2).reshape(batch, seq, dim), self.attention.o_proj.weight
        )
        del mixed

        # LlamaBlock.forward    h = x + self.attention(self.attention_norm(x))
        # RMSNorm.forward    return normed.to(x.dtype) * self.weight
        h = torch.empty_like(x)
        normed = attention_out  # in place: attention_out is last read here
        kernels.add_and_rms_norm(
            x, attention_out, self.mlp_norm.weight, h, normed, n_rows=batch * seq, n_cols=dim, eps=EPS
        )

        # mlp
        # SwiGLU.forward    gated = F.silu(self.gate_proj(x)) * self.up_proj(x)
        gate_proj_out = blas.linear(normed, self.mlp.gate_proj.weight)
        up_proj_out = blas.linear(normed, self.mlp.up_proj.weight)
        gated = up_proj_out  # in place: up_proj_out is last read here
        kernels.swiglu(gate_proj_out, up_proj_out, gated, n_elements=gated.numel())
        del gate_proj_out

        mlp_out = blas.linear(gated, self.mlp.down_proj.weight)

        # LlamaBlock.forward    return h + self.mlp(self.mlp_norm(h))
        out = mlp_out  # in place: mlp_out is last read here
        kernels.add(h, mlp_out, out, n_elements=out.numel())
        return out
