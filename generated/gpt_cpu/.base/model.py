"""GPT as kernels for cpu, float32, inference.

    tokens  int64 (batch=2, seq=128)
    ->      float32 (batch, seq, 2048)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch
import torch.nn.functional as F
from torch import nn

from . import kernels
from .runtime import Weights, check_tensor, check_weights, empty

N_HEADS = 4
DIM = 256
VOCAB_SIZE = 2048
EPS = 1e-5


class Block(nn.Module):
    """Each of blocks."""

    def __init__(self):
        super().__init__()
        self.ln_1 = Weights(weight=(256,), bias=(256,))
        self.attn = Weights(
            qkv=Weights(weight=(768, 256), bias=(768,)), proj=Weights(weight=(256, 256), bias=(256,))
        )
        self.ln_2 = Weights(weight=(256,), bias=(256,))
        self.mlp = Weights(
            widen=Weights(weight=(1024, 256), bias=(1024,)), narrow=Weights(weight=(256, 1024), bias=(256,))
        )

    def forward(self, normed, x, next_ln_weight, next_ln_bias):
        """Ends with the next layer's ln_1; the last one with ln_f."""
        batch, seq, dim = normed.shape

        # attn
        qkv_out = F.linear(normed, self.attn.qkv.weight, self.attn.qkv.bias)
        q, k, v = qkv_out.view(batch, seq, 3, N_HEADS, -1).transpose(1, 3).unbind(2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed = mixed.transpose(1, 2).reshape(batch, seq, dim)
        attn_out = F.linear(mixed, self.attn.proj.weight, self.attn.proj.bias)

        # Block.forward    x = x + self.attn(self.ln_1(x)); return x + self.mlp(self.ln_2(x))
        residual = empty(x.shape, torch.float32)
        normed = attn_out  # in place: attn_out is last read here
        kernels.add_and_layer_norm(
            x,
            attn_out,
            self.ln_2.weight,
            self.ln_2.bias,
            residual,
            normed,
            n_rows=batch * seq,
            n_cols=dim,
            eps=EPS,
        )

        # mlp
        # Mlp.forward    hidden = F.gelu(self.widen(x), approximate="tanh")
        widen_out = F.linear(normed, self.mlp.widen.weight, self.mlp.widen.bias)
        hidden = widen_out  # in place: widen_out is last read here
        kernels.gelu(widen_out, hidden, n_elements=hidden.numel())

        mlp_out = F.linear(hidden, self.mlp.narrow.weight, self.mlp.narrow.bias)

        # Block.forward    return x + self.mlp(self.ln_2(x))
        x = empty(residual.shape, torch.float32)
        normed = mlp_out  # in place: mlp_out is last read here
        kernels.add_and_layer_norm(
            residual,
            mlp_out,
            next_ln_weight,
            next_ln_bias,
            x,
            normed,
            n_rows=batch * seq,
            n_cols=dim,
            eps=EPS,
        )
        return normed, x


class GPT(nn.Module):
    """Takes the state_dict of examples.gpt.GPT."""

    def __init__(self):
        super().__init__()
        self.token_embedding = Weights(weight=(2048, 256))
        self.position_embedding = Weights(weight=(256, 256))
        self.blocks = nn.ModuleList(Block() for _ in range(12))
        self.ln_f = Weights(weight=(256,), bias=(256,))
        self.head = Weights(weight=self.token_embedding.weight)

    def forward(self, tokens):
        check_tensor("tokens", tokens, dtype=torch.int64, shape=(2, 128), device="cpu")
        check_weights(self, tokens.device)
        batch, seq = tokens.shape

        # GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)
        # Block.forward    x = x + self.attn(self.ln_1(x))
        x = empty((batch, seq, DIM), torch.float32)
        normed = empty((batch, seq, DIM), torch.float32)
        kernels.embedding_add_and_layer_norm(
            tokens,
            self.token_embedding.weight,
            self.position_embedding.weight,
            self.blocks[0].ln_1.weight,
            self.blocks[0].ln_1.bias,
            x,
            normed,
            n_batches=batch,
            n_positions=seq,
            dim=DIM,
            table_size=VOCAB_SIZE,
            eps=EPS,
        )

        lns = [*(layer.ln_1 for layer in self.blocks), self.ln_f]
        for block, next_ln in zip(self.blocks, lns[1:], strict=True):
            normed, x = block(normed, x, next_ln.weight, next_ln.bias)

        return F.linear(normed, self.token_embedding.weight)
