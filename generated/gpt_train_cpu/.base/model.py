"""LanguageModel as kernels for cpu, float32, training.

    tokens   int64 (batch=4, seq=64)
    targets  int64 (batch, seq)
    ->       float32 ()

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch
import torch.nn.functional as F
from torch import nn

from . import kernels
from .backward import BlockSaved, LanguageModelFunction, LanguageModelSaved
from .runtime import Weights, check_tensor, check_weights, empty, parameters_of, tie

N_HEADS = 4
DIM = 128
VOCAB_SIZE = 512
EPS = 1e-5


class Block(nn.Module):
    """Each of gpt.blocks."""

    def __init__(self):
        super().__init__()
        self.ln_1 = Weights(weight=(128,), bias=(128,))
        self.attn = Weights(
            qkv=Weights(weight=(384, 128), bias=(384,)), proj=Weights(weight=(128, 128), bias=(128,))
        )
        self.ln_2 = Weights(weight=(128,), bias=(128,))
        self.mlp = Weights(
            widen=Weights(weight=(512, 128), bias=(512,)), narrow=Weights(weight=(128, 512), bias=(128,))
        )

    def forward(self, normed, x, next_ln_weight, next_ln_bias):
        """Ends with the next layer's ln_1; the last one with gpt.ln_f."""
        batch, seq, dim = normed.shape

        # attn
        qkv_out = F.linear(normed, self.attn.qkv.weight, self.attn.qkv.bias)
        q, k, v = qkv_out.view(batch, seq, 3, N_HEADS, -1).transpose(1, 3).unbind(2)
        mixed, logsumexp = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default(
            q, k, v, dropout_p=0.0, is_causal=True
        )
        mixed_view = mixed.transpose(1, 2).reshape(batch, seq, dim)
        attn_out = F.linear(mixed_view, self.attn.proj.weight, self.attn.proj.bias)

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
        hidden = empty(widen_out.shape, torch.float32)
        kernels.gelu(widen_out, hidden, n_elements=hidden.numel())

        mlp_out = F.linear(hidden, self.mlp.narrow.weight, self.mlp.narrow.bias)

        # Block.forward    return x + self.mlp(self.ln_2(x))
        next_x = empty(residual.shape, torch.float32)
        normed = mlp_out  # in place: mlp_out is last read here
        kernels.add_and_layer_norm(
            residual,
            mlp_out,
            next_ln_weight,
            next_ln_bias,
            next_x,
            normed,
            n_rows=batch * seq,
            n_cols=dim,
            eps=EPS,
        )

        saved = BlockSaved(
            x=x, qkv_out=qkv_out, mixed=mixed, logsumexp=logsumexp, residual=residual, widen_out=widen_out
        )
        return normed, next_x, saved


class LanguageModel(nn.Module):
    """Takes the state_dict of examples.gpt_train.LanguageModel."""

    def __init__(self):
        super().__init__()
        self.gpt = Weights(
            token_embedding=Weights(weight=(512, 128)),
            position_embedding=Weights(weight=(128, 128)),
            blocks=nn.ModuleList(Block() for _ in range(4)),
            ln_f=Weights(weight=(128,), bias=(128,)),
            head=Weights(),
        )
        tie(self.gpt.head, "weight", self.gpt.token_embedding.weight)
        self.requires_grad_()

    def forward(self, tokens, targets):
        check_tensor("tokens", tokens, dtype=torch.int64, shape=(4, 64), device="cpu")
        check_tensor("targets", targets, dtype=torch.int64, shape=(4, 64), device=tokens.device)
        with torch.no_grad():
            check_weights(self, tokens.device)
        return LanguageModelFunction.apply(self, tokens, targets, *parameters_of(self))[0]

    def launch(self, tokens, targets):
        """What the model runs, in order: returns the results, then what backward.py reads.

        unscaled_d_ is a gradient but for the factor that backward() is given: begun here, less is kept.
        """
        batch, seq = tokens.shape

        # GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)
        # Block.forward    x = x + self.attn(self.ln_1(x))
        x = empty((batch, seq, DIM), torch.float32)
        normed = empty((batch, seq, DIM), torch.float32)
        kernels.embedding_add_and_layer_norm(
            tokens,
            self.gpt.token_embedding.weight,
            self.gpt.position_embedding.weight,
            self.gpt.blocks[0].ln_1.weight,
            self.gpt.blocks[0].ln_1.bias,
            x,
            normed,
            n_batches=batch,
            n_positions=seq,
            dim=DIM,
            table_size=VOCAB_SIZE,
            eps=EPS,
        )

        saved_blocks = []
        lns = [*(layer.ln_1 for layer in self.gpt.blocks), self.gpt.ln_f]
        for block, next_ln in zip(self.gpt.blocks, lns[1:], strict=True):
            normed, x, saved = block(normed, x, next_ln.weight, next_ln.bias)
            saved_blocks.append(saved)

        logits = F.linear(normed, self.gpt.token_embedding.weight)

        # LanguageModel.forward    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        n_counted = empty((), torch.int64)
        kernels.cross_entropy_n_counted(targets, n_counted, n_elements=batch * seq)
        losses = empty((batch * seq,), torch.float32)
        unscaled_d_logits = empty((batch * seq, VOCAB_SIZE), torch.float32)
        kernels.cross_entropy_and_gradient(
            logits, targets, n_counted, losses, unscaled_d_logits, n_rows=batch * seq, n_cols=VOCAB_SIZE
        )
        loss = empty((), torch.float32)
        kernels.cross_entropy(losses, targets, loss, n_elements=batch * seq)

        unscaled_d_ln_f = torch.mm(unscaled_d_logits, self.gpt.token_embedding.weight)
        unscaled_d_token_embedding = torch.mm(unscaled_d_logits.T, normed.reshape(-1, DIM))

        saved = LanguageModelSaved(
            tokens=tokens,
            x=x,
            unscaled_d_ln_f=unscaled_d_ln_f,
            unscaled_d_token_embedding=unscaled_d_token_embedding,
            blocks=saved_blocks,
        )
        return loss, saved
