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

        # RMSNorm.forward    mean_square = x_float.pow(2).mean(-1, keepdim=True)
        # RMSNorm.forward    normed = x_float * torch.rsqrt(mean_square + self.eps)
        # RMSNorm.forward    return normed.to(x.dtype) * self.weight
        product = empty(x.shape, torch.float32)
        kernels.rms_norm(x, self.attention_norm.weight, product, batch * seq, seq)

        # GroupedQueryAttention.forward    q = self.q_proj(x).view(batch, seq, self.n_heads, self.head_dim).tran ...
        q = F.linear(product, self.attention.q_proj.weight)

        # GroupedQueryAttention.forward    k = self.k_proj(x).view(batch, seq, self.n_kv_heads, self.head_dim).t ...
        k = F.linear(product, self.attention.k_proj.weight)

        # GroupedQueryAttention.forward    v = self.v_proj(x).view(batch, seq, self.n_kv_heads, self.head_dim).t ...
        v = F.linear(product, self.attention.v_proj.weight)
        del product

        # Rotary.forward    rotated = torch.cat([-second, first], dim=-1)
        # Rotary.forward    return x * self.cos[:seq] + rotated * self.sin[:seq]
        total = empty((batch, 8, seq, 32), torch.float32)
        kernels.cat_mul_add(
            q, self.attention.rotary.cos, self.attention.rotary.sin, total, batch, 8, seq, 32, 16, 16
        )
        del q
        rotary_total = empty((batch, 2, seq, 32), torch.float32)
        kernels.cat_mul_add(
            k,
            self.attention.rotary.cos,
            self.attention.rotary.sin,
            rotary_total,
            batch,
            batch,
            seq,
            32,
            16,
            16,
        )

        # GroupedQueryAttention.forward    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enabl ...
        mixed = F.scaled_dot_product_attention(
            total, rotary_total, v.reshape(2, 256, 2, 32).transpose(1, 2), is_causal=True, enable_gqa=True
        )
        del total

        # GroupedQueryAttention.forward    return self.o_proj(mixed.transpose(1, 2).reshape(batch, seq, dim))
        o_proj = F.linear(mixed.transpose(1, 2).reshape(2, 256, 256), self.attention.o_proj.weight)
        del mixed

        # LlamaBlock.forward    h = x + self.attention(self.attention_norm(x))
        # RMSNorm.forward    mean_square = x_float.pow(2).mean(-1, keepdim=True)
        # RMSNorm.forward    return normed.to(x.dtype) * self.weight
        h = empty(x.shape, torch.float32)
        product = o_proj  # in place: nothing reads o_proj afterwards
        kernels.add_rms_norm(x, o_proj, self.mlp_norm.weight, h, product, batch * seq, seq)

        # SwiGLU.forward    gated = F.silu(self.gate_proj(x)) * self.up_proj(x)
        gate_proj = F.linear(product, self.mlp.gate_proj.weight)
        up_proj = F.linear(product, self.mlp.up_proj.weight)
        gated = gate_proj  # in place: nothing reads gate_proj afterwards
        kernels.silu_mul(gate_proj, up_proj, gated, 360448)
        del up_proj

        # SwiGLU.forward    return self.down_proj(gated)
        down_proj = F.linear(gated, self.mlp.down_proj.weight)

        # LlamaBlock.forward    return h + self.mlp(self.mlp_norm(h))
        h_plus_down_proj = h  # in place: nothing reads h afterwards
        kernels.add(h, down_proj, h_plus_down_proj, batch * seq * dim)
        return h_plus_down_proj
