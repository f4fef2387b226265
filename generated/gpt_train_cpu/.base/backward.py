"""The backward pass of LanguageModel: what autograd calls, and the gradients as kernels.

Quoted is the statement that a paragraph differentiates; it may compute a part of that once more. What
comes after "again" is computed once more, too, because that is cheaper than to keep it. Gradients have
the word of what they belong to: d_x is the gradient of x.
"""

from dataclasses import dataclass

import torch

from . import kernels
from .runtime import (
    by_position,
    empty,
    keep_for_backward,
    kept_for_backward,
    of_layers,
    of_parameters,
    own_types,
)

MAX_POSITIONS = 128
EPS = 1e-5

# Weights that the backward pass does not read, so that autograd need not keep them, by how their names end.
UNREAD = (
    ".token_embedding.weight",
    ".position_embedding.weight",
    ".qkv.bias",
    ".proj.bias",
    ".widen.bias",
    ".narrow.bias",
    ".ln_f.bias",
)


@dataclass
class BlockSaved:
    """What one of gpt.blocks keeps for its backward pass."""

    x: torch.Tensor  # float32 (batch, seq, dim)
    qkv_out: torch.Tensor  # float32 (batch, seq, qkv_dim)
    mixed: torch.Tensor  # float32 (batch, n_heads, seq, head_dim)
    logsumexp: torch.Tensor  # float32 (batch, n_heads, seq)
    residual: torch.Tensor  # float32 (batch, seq, dim)
    widen_out: torch.Tensor  # float32 (batch, seq, widen_dim)


@dataclass
class LanguageModelSaved:
    """What language_model_backward() reads of the forward pass."""

    tokens: torch.Tensor  # int64 (batch, seq)
    x: torch.Tensor  # float32 (batch, seq, dim)
    unscaled_d_ln_f: torch.Tensor  # float32 (batch * seq, dim)
    unscaled_d_token_embedding: torch.Tensor  # float32 (vocab_size, dim)
    blocks: list[BlockSaved]


class LanguageModelFunction(torch.autograd.Function):
    """LanguageModel with gradients, which have no gradients themselves."""

    @staticmethod
    def forward(ctx, model, tokens, targets, *parameters):
        loss, saved = model.launch(tokens, targets)
        keep_for_backward(ctx, saved, model, UNREAD)
        return (loss,)

    @staticmethod
    def backward(ctx, d_loss):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "LanguageModel has no second derivative: create_graph=True takes the eager model"
            )
        model, saved = kept_for_backward(ctx)
        with own_types("cpu"):
            gradients = language_model_backward(model, saved, d_loss.contiguous())
        return None, None, None, *of_parameters(model, gradients)


def mlp_backward(layer, saved, d_next_x):
    """The derivative of Mlp, gpt.blocks[i].mlp, and of ln_2.

    From d_next_x to d_residual and gradients of their weights.
    """
    dim = d_next_x.shape[1]
    batch, seq, widen_dim = saved.widen_out.shape

    # mlp
    d_narrow_bias = empty((dim,), torch.float32)
    kernels.column_sum(d_next_x, d_narrow_bias, n_rows=batch * seq, n_cols=dim)
    d_hidden = torch.mm(d_next_x, layer.mlp.narrow.weight)

    hidden = empty(d_hidden.shape, torch.float32)
    d_widen_out = d_hidden  # in place: d_hidden is last read here
    d_widen_bias = empty((widen_dim,), torch.float32)
    kernels.d_gelu(
        saved.widen_out, d_hidden, hidden, d_widen_out, d_widen_bias, n_rows=batch * seq, n_cols=widen_dim
    )

    d_narrow_weight = torch.mm(d_next_x.T, hidden)
    d_normed = torch.mm(d_widen_out, layer.mlp.widen.weight)

    # Block.forward    return x + self.mlp(self.ln_2(x))
    normed = empty(d_next_x.shape, torch.float32)
    d_residual = d_normed  # in place: d_normed is last read here
    d_ln_2_bias = empty((dim,), torch.float32)
    d_ln_2_weight = empty((dim,), torch.float32)
    kernels.d_add_layer_norm(
        saved.residual,
        layer.ln_2.weight,
        layer.ln_2.bias,
        d_next_x,
        d_normed,
        normed,
        d_residual,
        d_ln_2_bias,
        d_ln_2_weight,
        n_rows=batch * seq,
        n_cols=dim,
        eps=EPS,
    )

    d_widen_weight = torch.mm(d_widen_out.T, normed)
    return d_residual, {
        "ln_2.weight": d_ln_2_weight,
        "ln_2.bias": d_ln_2_bias,
        "mlp.widen.weight": d_widen_weight,
        "mlp.widen.bias": d_widen_bias,
        "mlp.narrow.weight": d_narrow_weight,
        "mlp.narrow.bias": d_narrow_bias,
    }


def causal_self_attention_backward(layer, saved, d_residual):
    """The derivative of CausalSelfAttention, gpt.blocks[i].attn, and of ln_1.

    From d_residual to d_x and gradients of their weights.
    """
    dim = d_residual.shape[1]
    batch, n_heads, seq, head_dim = saved.mixed.shape
    qkv_dim = saved.qkv_out.shape[2]

    # attn
    d_proj_bias = empty((dim,), torch.float32)
    kernels.column_sum(d_residual, d_proj_bias, n_rows=batch * seq, n_cols=dim)
    d_mixed = torch.mm(d_residual, layer.attn.proj.weight)
    mixed_view = saved.mixed.transpose(1, 2).reshape(batch, seq, dim)
    d_proj_weight = torch.mm(d_residual.T, mixed_view.reshape(-1, dim))

    d_mixed = d_mixed.reshape(batch, seq, n_heads, head_dim).transpose(1, 2)
    q, k, v = saved.qkv_out.view(batch, seq, 3, n_heads, -1).transpose(1, 3).unbind(2)
    d_q, d_k, d_v = by_position(
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default(
            d_mixed, q, k, v, saved.mixed, saved.logsumexp, dropout_p=0.0, is_causal=True
        )
    )

    d_qkv_out = empty((batch * seq, qkv_dim), torch.float32)
    d_qkv_bias = empty((qkv_dim,), torch.float32)
    kernels.make_d_qkv(
        d_q,
        d_k,
        d_v,
        d_qkv_out,
        d_qkv_bias,
        n_rows=batch * seq,
        n_cols=qkv_dim,
        d_q_stride=d_q.stride(2),
        d_k_stride=d_k.stride(2),
        d_v_stride=d_v.stride(2),
        d_q_end=dim,
        d_k_end=2 * dim,
    )
    d_normed = torch.mm(d_qkv_out, layer.attn.qkv.weight)

    # Block.forward    x = x + self.attn(self.ln_1(x))
    normed = empty(d_residual.shape, torch.float32)
    d_x = d_normed  # in place: d_normed is last read here
    d_ln_1_bias = empty((dim,), torch.float32)
    d_ln_1_weight = empty((dim,), torch.float32)
    kernels.d_add_layer_norm(
        saved.x,
        layer.ln_1.weight,
        layer.ln_1.bias,
        d_residual,
        d_normed,
        normed,
        d_x,
        d_ln_1_bias,
        d_ln_1_weight,
        n_rows=batch * seq,
        n_cols=dim,
        eps=EPS,
    )

    d_qkv_weight = torch.mm(d_qkv_out.T, normed)
    return d_x, {
        "ln_1.weight": d_ln_1_weight,
        "ln_1.bias": d_ln_1_bias,
        "attn.qkv.weight": d_qkv_weight,
        "attn.qkv.bias": d_qkv_bias,
        "attn.proj.weight": d_proj_weight,
        "attn.proj.bias": d_proj_bias,
    }


def block_backward(layer, saved, d_next_x):
    """What one of gpt.blocks hands on, backwards, and the gradients of its weights."""
    d_residual, mlp_gradients = mlp_backward(layer, saved, d_next_x)

    d_x, attn_gradients = causal_self_attention_backward(layer, saved, d_residual)
    return d_x, {**attn_gradients, **mlp_gradients}


def language_model_backward(model, saved, d_loss):
    """The gradients of LanguageModel's parameters, by name.

    Drops parts of `saved` once they are read.
    """
    batch, seq = saved.tokens.shape
    dim = saved.x.shape[2]
    vocab_size = saved.unscaled_d_token_embedding.shape[0]

    # GPT.forward    return self.head(self.ln_f(x))
    d_x = empty(saved.unscaled_d_ln_f.shape, torch.float32)
    d_ln_f_weight = empty((dim,), torch.float32)
    d_ln_f_bias = empty((dim,), torch.float32)
    kernels.d_layer_norm(
        saved.unscaled_d_ln_f,
        d_loss,
        model.gpt.ln_f.weight,
        saved.x,
        d_x,
        d_ln_f_weight,
        d_ln_f_bias,
        n_rows=batch * seq,
        n_cols=dim,
        eps=EPS,
    )

    d_blocks = {}
    for layer in reversed(range(len(saved.blocks))):
        d_x, d_blocks[layer] = block_backward(model.gpt.blocks[layer], saved.blocks.pop(), d_x)

    # GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)
    d_position_embedding_out = empty((1, seq, dim), torch.float32)
    kernels.column_sum(d_x, d_position_embedding_out, n_rows=batch, n_cols=seq * dim)
    d_position_embedding_weight = empty((MAX_POSITIONS, dim), torch.float32)
    kernels.pad(
        d_position_embedding_out, d_position_embedding_weight, n_rows=MAX_POSITIONS, n_cols=dim, n_filled=seq
    )
    d_token_embedding_from_lookup = torch.ops.aten.embedding_dense_backward.default(
        d_x.view(batch, seq, dim),
        saved.tokens,
        num_weights=vocab_size,
        padding_idx=-1,
        scale_grad_by_freq=False,
    )

    d_token_embedding_weight = d_token_embedding_from_lookup  # in place
    kernels.d_token_embedding_weight(
        saved.unscaled_d_token_embedding,
        d_loss,
        d_token_embedding_from_lookup,
        d_token_embedding_weight,
        n_elements=vocab_size * dim,
    )
    return {
        "gpt.token_embedding.weight": d_token_embedding_weight,
        "gpt.position_embedding.weight": d_position_embedding_weight,
        **of_layers("gpt.blocks", d_blocks),
        "gpt.ln_f.weight": d_ln_f_weight,
        "gpt.ln_f.bias": d_ln_f_bias,
    }
