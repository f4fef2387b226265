"""GPT as kernels for cuda (sm_90), bfloat16, inference.

    tokens  int64 (batch=8, seq=1024)
    ->      bfloat16 (batch, seq, 50257)

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch
import torch.nn.functional as F
from torch import nn

from . import kernels
from .runtime import Weights, blas, check_tensor, check_weights

N_HEADS = 12
DIM = 768
VOCAB_SIZE = 50257
PADDED_VOCAB_SIZE = 50264
EPS = 1e-5


class Block(nn.Module):
    """Each of blocks."""

    def __init__(self):
        super().__init__()
        self.ln_1 = Weights(dtype=torch.bfloat16, weight=(768,), bias=(768,))
        self.attn = Weights(
            qkv=Weights(dtype=torch.bfloat16, weight=(2304, 768), bias=(2304,)),
            proj=Weights(dtype=torch.bfloat16, weight=(768, 768), bias=(768,)),
        )
        self.ln_2 = Weights(dtype=torch.bfloat16, weight=(768,), bias=(768,))
        self.mlp = Weights(
            widen=Weights(dtype=torch.bfloat16, weight=(3072, 768), bias=(3072,)),
            narrow=Weights(dtype=torch.bfloat16, weight=(768, 3072), bias=(768,)),
        )

    def forward(self, normed, x, next_ln_weight, next_ln_bias):
        """Ends with the next layer's ln_1; the last one with ln_f."""
        batch, seq, dim = normed.shape

        # attn
        qkv_out = blas.linear(normed, self.attn.qkv.weight, self.attn.qkv.bias)
        q, k, v = qkv_out.view(batch, seq, 3, N_HEADS, -1).transpose(1, 3).unbind(2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        del qkv_out, q, k, v
        mixed = mixed.transpose(1, 2).reshape(batch, seq, dim)
        attn_out = blas.linear(mixed, self.attn.proj.weight, self.attn.proj.bias)
        del mixed

        # Block.forward    x = x + self.attn(self.ln_1(x)); return x + self.mlp(self.ln_2(x))
        residual = torch.empty_like(x)
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
        widen_out = blas.linear(normed, self.mlp.widen.weight, self.mlp.widen.bias)
        del attn_out, normed
        hidden = widen_out  # in place: widen_out is last read here
        kernels.gelu(widen_out, hidden, n_elements=hidden.numel())

        mlp_out = blas.linear(hidden, self.mlp.narrow.weight, self.mlp.narrow.bias)
        del widen_out, hidden

        # Block.forward    return x + self.mlp(self.ln_2(x))
        x = torch.empty_like(residual)
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
        self.token_embedding = Weights(dtype=torch.bfloat16, weight=(50257, 768))
        self.position_embedding = Weights(dtype=torch.bfloat16, weight=(1024, 768))
        self.blocks = nn.ModuleList(Block() for _ in range(12))
        self.ln_f = Weights(dtype=torch.bfloat16, weight=(768,), bias=(768,))
        self.head = Weights(weight=self.token_embedding.weight)

    def forward(self, tokens):
        check_tensor("tokens", tokens, dtype=torch.int64, shape=(8, 1024), device="cuda")
        check_weights(self, tokens.device)
        batch, seq = tokens.shape

        # GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)
        # Block.forward    x = x + self.attn(self.ln_1(x))
        x = torch.empty(batch, seq, DIM, dtype=torch.bfloat16, device=tokens.device)
        normed = torch.empty_like(x)
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

        # Padded for cuBLAS: several times faster where the rows that it makes and reads are multiples of
        # 16 bytes.
        padded_weight = torch.empty(PADDED_VOCAB_SIZE, DIM, dtype=torch.bfloat16, device=tokens.device)
        kernels.pad_head(
            self.token_embedding.weight,
            padded_weight,
            n_rows=PADDED_VOCAB_SIZE,
            n_cols=DIM,
            n_filled=VOCAB_SIZE,
        )
        return blas.linear(normed, padded_weight)[:, :, :VOCAB_SIZE]
