"""LanguageModel as kernels for cuda (sm_90), bfloat16, training.

    tokens   int64 (batch=8, seq=1024)
    targets  int64 (batch, seq)
    ->       bfloat16 ()

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch
from torch import nn

from . import kernels
from .backward import BlockSaved, LanguageModelFunction, LanguageModelSaved
from .runtime import Weights, blas, check_tensor, check_weights, cudnn_attention, parameters_of, tie

N_HEADS = 12
DIM = 768
VOCAB_SIZE = 50257
PADDED_VOCAB_SIZE = 50264
EPS = 1e-5


class Block(nn.Module):
    """Each of gpt.blocks."""

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
        """Ends with the next layer's ln_1; the last one with gpt.ln_f."""
        batch, seq, dim = normed.shape

        # attn
        qkv_out = blas.linear(normed, self.attn.qkv.weight, self.attn.qkv.bias)
        q, k, v = qkv_out.view(batch, seq, 3, N_HEADS, -1).transpose(1, 3).unbind(2)
        mixed, logsumexp, _, _, _, _, philox_seed, philox_offset, _ = cudnn_attention(q, k, v, is_causal=True)
        mixed_view = mixed.transpose(1, 2).reshape(batch, seq, dim)
        attn_out = blas.linear(mixed_view, self.attn.proj.weight, self.attn.proj.bias)

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
        hidden = torch.empty_like(widen_out)
        kernels.gelu(widen_out, hidden, n_elements=hidden.numel())

        mlp_out = blas.linear(hidden, self.mlp.narrow.weight, self.mlp.narrow.bias)
        del hidden

        # Block.forward    return x + self.mlp(self.ln_2(x))
        next_x = torch.empty_like(residual)
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
            x=x,
            qkv_out=qkv_out,
            mixed=mixed,
            logsumexp=logsumexp,
            philox_seed=philox_seed,
            philox_offset=philox_offset,
            residual=residual,
            widen_out=widen_out,
        )
        return normed, next_x, saved


class LanguageModel(nn.Module):
    """Takes the state_dict of examples.gpt_train.LanguageModel."""

    def __init__(self):
        super().__init__()
        self.gpt = Weights(
            token_embedding=Weights(dtype=torch.bfloat16, weight=(50257, 768)),
            position_embedding=Weights(dtype=torch.bfloat16, weight=(1024, 768)),
            blocks=nn.ModuleList(Block() for _ in range(12)),
            ln_f=Weights(dtype=torch.bfloat16, weight=(768,), bias=(768,)),
            head=Weights(),
        )
        tie(self.gpt.head, "weight", self.gpt.token_embedding.weight)
        self.requires_grad_()

    def forward(self, tokens, targets):
        check_tensor("tokens", tokens, dtype=torch.int64, shape=(8, 1024), device="cuda")
        check_tensor("targets", targets, dtype=torch.int64, shape=(8, 1024), device=tokens.device)
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
        x = torch.empty(batch, seq, DIM, dtype=torch.bfloat16, device=tokens.device)
        normed = torch.empty_like(x)
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

        # Padded for cuBLAS: several times faster where the rows that it makes and reads are multiples of
        # 16 bytes.
        padded_weight = torch.empty(PADDED_VOCAB_SIZE, DIM, dtype=torch.bfloat16, device=tokens.device)
        kernels.pad_head(
            self.gpt.token_embedding.weight,
            padded_weight,
            n_rows=PADDED_VOCAB_SIZE,
            n_cols=DIM,
            n_filled=VOCAB_SIZE,
        )
        logits = blas.linear(normed, padded_weight)

        # LanguageModel.forward    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        n_counted = torch.empty((), dtype=torch.int64, device=tokens.device)
        kernels.cross_entropy_n_counted(targets, n_counted, n_elements=batch * seq)
        losses = torch.empty(batch * seq, dtype=torch.float32, device=tokens.device)
        unscaled_d_logits = logits.new_empty(batch * seq, PADDED_VOCAB_SIZE)
        kernels.cross_entropy_and_gradient(
            logits,
            targets,
            n_counted,
            losses,
            unscaled_d_logits,
            n_rows=batch * seq,
            n_cols=VOCAB_SIZE,
            logits_stride=PADDED_VOCAB_SIZE,
            unscaled_d_logits_stride=PADDED_VOCAB_SIZE,
        )
        del logits
        loss = torch.empty((), dtype=torch.bfloat16, device=tokens.device)
        kernels.cross_entropy(losses, targets, loss, n_elements=batch * seq)
        kernels.fill_padding(
            unscaled_d_logits,
            n_rows=batch * seq,
            n_cols=PADDED_VOCAB_SIZE - VOCAB_SIZE,
            unscaled_d_logits_stride=PADDED_VOCAB_SIZE,
            unscaled_d_logits_offset=VOCAB_SIZE,
        )

        unscaled_d_ln_f = blas.mm(unscaled_d_logits, padded_weight)
        unscaled_d_token_embedding = blas.mm(unscaled_d_logits.T, normed.reshape(-1, DIM))

        saved = LanguageModelSaved(
            tokens=tokens,
            x=x,
            unscaled_d_ln_f=unscaled_d_ln_f,
            unscaled_d_token_embedding=unscaled_d_token_embedding[:VOCAB_SIZE],
            blocks=saved_blocks,
        )
        return loss, saved
