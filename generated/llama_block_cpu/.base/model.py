"""LlamaBlock as kernels: examples.llama_block.LlamaBlock for cpu, float32, inference.

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
        n_heads, head_dim, n_kv_heads = 8, 32, 2

        # RMSNorm.forward    mean_square = x_float.pow(2).mean(-1, keepdim=True)
        # RMSNorm.forward    normed = x_float * torch.rsqrt(mean_square + self.eps)
        # RMSNorm.forward    return normed.to(x.dtype) * self.weight
        attention_norm = empty(x.shape, torch.float32)
        kernels.rms_norm(
            x, self.attention_norm.weight, attention_norm, n_rows=batch * seq, n_cols=dim, eps=1e-5
        )

        # GroupedQueryAttention.forward    q = self.q_proj(x).view(batch, seq, self.n_heads, self.head_dim)
        #         .transpose(1, 2)
        q = F.linear(attention_norm, self.attention.q_proj.weight)

        # GroupedQueryAttention.forward    k = self.k_proj(x)
        #         .view(batch, seq, self.n_kv_heads, self.head_dim).transpose(1, 2)
        k = F.linear(attention_norm, self.attention.k_proj.weight)

        # GroupedQueryAttention.forward    v = self.v_proj(x)
        #         .view(batch, seq, self.n_kv_heads, self.head_dim).transpose(1, 2)
        v = F.linear(attention_norm, self.attention.v_proj.weight)
        del attention_norm

        # Rotary.forward    rotated = torch.cat([-second, first], dim=-1)
        # Rotary.forward    return x * self.cos[:seq] + rotated * self.sin[:seq]
        rotary_q = empty((batch, seq, n_heads, head_dim), torch.float32).transpose(1, 2)
        kernels.rotary(
            q,
            self.attention.rotary.cos,
            self.attention.rotary.sin,
            rotary_q,
            n_batches=batch,
            n_positions=seq,
            n_heads=n_heads,
            n_cols=head_dim,
            half=head_dim // 2,
        )
        rotary_k = empty((batch, seq, n_kv_heads, head_dim), torch.float32).transpose(1, 2)
        kernels.rotary(
            k,
            self.attention.rotary.cos,
            self.attention.rotary.sin,
            rotary_k,
            n_batches=batch,
            n_positions=seq,
            n_heads=n_kv_heads,
            n_cols=head_dim,
            half=head_dim // 2,
        )

        # GroupedQueryAttention.forward    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True,
        #         enable_gqa=True)
        v = v.reshape(batch, seq, n_kv_heads, head_dim).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(rotary_q, rotary_k, v, is_causal=True, enable_gqa=True)

        # GroupedQueryAttention.forward    return self.o_proj(mixed.transpose(1, 2)
        #         .reshape(batch, seq, dim))
        attention = F.linear(mixed.transpose(1, 2).reshape(batch, seq, dim), self.attention.o_proj.weight)

        # LlamaBlock.forward    h = x + self.attention(self.attention_norm(x))
        h = empty(x.shape, torch.float32)
        mlp_norm = attention  # in place: nothing reads attention afterwards
        kernels.add_and_rms_norm(
            x, attention, self.mlp_norm.weight, h, mlp_norm, n_rows=batch * seq, n_cols=dim, eps=1e-5
        )

        # SwiGLU.forward    gated = F.silu(self.gate_proj(x)) * self.up_proj(x)
        gate_proj = F.linear(mlp_norm, self.mlp.gate_proj.weight)
        up_proj = F.linear(mlp_norm, self.mlp.up_proj.weight)
        gated = up_proj  # in place: nothing reads up_proj afterwards
        kernels.swiglu(gate_proj, up_proj, gated, gated.numel())
        del gate_proj

        # SwiGLU.forward    return self.down_proj(gated)
        mlp = F.linear(gated, self.mlp.down_proj.weight)

        # LlamaBlock.forward    return h + self.mlp(self.mlp_norm(h))
        out = mlp  # in place: nothing reads mlp afterwards
        kernels.add(h, mlp, out, out.numel())
        return out
