"""The backward pass of LanguageModel: what autograd calls, and the gradients as kernels.

Quoted is the statement that a paragraph differentiates; it may compute a part of that once more. What
comes after "again" is computed once more, too, because that is cheaper than to keep it. Gradients have
the word of what they belong to: d_x is the gradient of x.
"""

from dataclasses import dataclass

import torch

from . import kernels
from .runtime import (
    blas,
    cudnn_attention_backward,
    keep_for_backward,
    kept_for_backward,
    of_layers,
    of_parameters,
    own_types,
)

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

    x: torch.Tensor  # bfloat16 (batch, seq, dim)
    qkv_out: torch.Tensor  # bfloat16 (batch, seq, qkv_dim)
    mixed: torch.Tensor  # bfloat16 (batch, n_heads, seq, head_dim)
    logsumexp: torch.Tensor  # float32 (batch, n_heads, seq, 1)
    philox_seed: torch.Tensor  # int64 ()
    philox_offset: torch.Tensor  # int64 ()
    residual: torch.Tensor  # bfloat16 (batch, seq, dim)
    widen_out: torch.Tensor  # bfloat16 (batch, seq, widen_dim)


@dataclass
class LanguageModelSaved:
    """What language_model_backward() reads of the forward pass."""

    tokens: torch.Tensor  # int64 (batch, seq)
    x: torch.Tensor  # bfloat16 (batch, seq, dim)
    unscaled_d_ln_f: torch.Tensor  # bfloat16 (batch * seq, dim)
    unscaled_d_token_embedding: torch.Tensor  # bfloat16 (vocab_size, dim)
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
        with own_types("cuda"):
            gradients = language_model_backward(model, saved, d_loss.contiguous())
        return None, None, None, *of_parameters(model, gradients)


def mlp_backward(layer, saved, d_next_x):
    """The derivative of Mlp, gpt.blocks[i].mlp, and of ln_2.

    From d_next_x to d_residual and gradients of their weights. Overwrites d_next_x.
    """
    dim = d_next_x.shape[1]
    batch, seq, widen_dim = saved.widen_out.shape

    # mlp
    d_narrow_bias = d_next_x.new_empty(dim)
    kernels.column_sum(d_next_x, d_narrow_bias, n_rows=batch * seq, n_cols=dim)
    d_hidden = blas.mm(d_next_x, layer.mlp.narrow.weight)

    hidden = torch.empty_like(d_hidden)
    d_widen_out = torch.empty_like(d_hidden)
    d_widen_bias = saved.widen_out.new_empty(widen_dim)
    kernels.d_gelu(
        saved.widen_out, d_hidden, hidden, d_widen_out, d_widen_bias, n_rows=batch * seq, n_cols=widen_dim
    )
    del d_hidden

    d_narrow_weight = blas.mm(d_next_x.T, hidden)
    del hidden
    d_normed = blas.mm(d_widen_out, layer.mlp.widen.weight)

    # Block.forward    return x + self.mlp(self.ln_2(x))
    normed = torch.empty_like(d_next_x)
    d_residual = d_next_x  # in place: d_next_x is last read here
    d_ln_2_weight = saved.residual.new_empty(dim)
    d_ln_2_bias = torch.empty_like(d_ln_2_weight)
    kernels.d_add_layer_norm(
        saved.residual,
        layer.ln_2.weight,
        layer.ln_2.bias,
        d_next_x,
        d_normed,
        normed,
        d_residual,
        d_ln_2_weight,
        d_ln_2_bias,
        n_rows=batch * seq,
        n_cols=dim,
        eps=EPS,
    )
    del d_normed

    d_widen_weight = blas.mm(d_widen_out.T, normed)
    del d_widen_out, normed
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

    From d_residual to d_x and gradients of their weights. Overwrites d_residual.
    """
    dim = d_residual.shape[1]
    batch, n_heads, seq, head_dim = saved.mixed.shape
    qkv_dim = saved.qkv_out.shape[2]

    # attn
    d_proj_bias = d_residual.new_empty(dim)
    kernels.column_sum(d_residual, d_proj_bias, n_rows=batch * seq, n_cols=dim)
    d_mixed = blas.mm(d_residual, layer.attn.proj.weight)
    mixed_view = saved.mixed.transpose(1, 2).reshape(batch, seq, dim)
    d_proj_weight = blas.mm(d_residual.T, mixed_view.reshape(-1, dim))

    d_mixed = d_mixed.reshape(batch, seq, n_heads, head_dim).transpose(1, 2)
    q, k, v = saved.qkv_out.view(batch, seq, 3, n_heads, -1).transpose(1, 3).unbind(2)
    d_q, d_k, d_v = cudnn_attention_backward(
        d_mixed, q, k, v, saved.mixed, saved.logsumexp, saved.philox_seed, saved.philox_offset, is_causal=True
    )
    del d_mixed

    d_q = d_q.transpose(1, 2).reshape(batch, seq, dim).contiguous()
    d_k = d_k.transpose(1, 2).reshape(batch, seq, dim).contiguous()
    d_v = d_v.transpose(1, 2).reshape(batch, seq, dim).contiguous()
    d_qkv_out = d_q.new_empty(batch * seq, qkv_dim)
    d_qkv_bias = d_q.new_empty(qkv_dim)
    kernels.make_d_qkv(
        d_q,
        d_k,
        d_v,
        d_qkv_out,
        d_qkv_bias,
        n_rows=batch * seq,
        n_cols=qkv_dim,
        d_q_stride=dim,
        d_k_stride=dim,
        d_v_stride=dim,
        d_q_end=dim,
        d_k_end=2 * dim,
    )
    d_normed = blas.mm(d_qkv_out, layer.attn.qkv.weight)

    # Block.forward    x = x + self.attn(self.ln_1(x))
    normed = torch.empty_like(d_residual)
    d_x = d_residual  # in place: d_residual is last read here
    d_ln_1_weight = saved.x.new_empty(dim)
    d_ln_1_bias = torch.empty_like(d_ln_1_weight)
    kernels.d_add_layer_norm(
        saved.x,
        layer.ln_1.weight,
        layer.ln_1.bias,
        d_residual,
        d_normed,
        normed,
        d_x,
        d_ln_1_weight,
        d_ln_1_bias,
        n_rows=batch * seq,
        n_cols=dim,
        eps=EPS,
    )

    d_qkv_weight = blas.mm(d_qkv_out.T, normed)
    return d_x, {
        "ln_1.weight": d_ln_1_weight,
        "ln_1.bias": d_ln_1_bias,
        "attn.qkv.weight": d_qkv_weight,
        "attn.qkv.bias": d_qkv_bias,
        "attn.proj.weight": d_proj_weight,
        "attn.proj.bias": d_proj_bias,
    }


def block_backward(layer, saved, d_next_x):
    """What one of gpt.blocks hands on, backwards, and the gradients of its weights.

    Overwrites d_next_x.
    """
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
    d_x = torch.empty_like(saved.unscaled_d_ln_f)
    d_ln_f_weight = saved.unscaled_d_ln_f.new_empty(dim)
    d_ln_f_bias = torch.empty_like(d_ln_f_weight)
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
    del saved.x, saved.unscaled_d_ln_f

    d_blocks = {}
    for layer in reversed(range(len(saved.blocks))):
        d_x, d_blocks[layer] = block_backward(model.gpt.blocks[layer], saved.blocks.pop(), d_x)

    # GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)
    d_position_embedding_weight = d_x.new_empty(seq, dim)
    kernels.column_sum_few_rows(d_x, d_position_embedding_weight, n_rows=batch, n_cols=seq * dim)
    d_token_embedding_from_lookup_totals = torch.zeros(
        vocab_size, dim, dtype=torch.float32, device=saved.tokens.device
    )
    kernels.d_embedding(
        saved.tokens,
        d_x,
        d_token_embedding_from_lookup_totals,
        n_rows=batch * seq,
        n_cols=dim,
        n_places=vocab_size,
    )
    del d_x

    d_token_embedding_weight = torch.empty_like(saved.unscaled_d_token_embedding)
    kernels.d_token_embedding_weight(
        saved.unscaled_d_token_embedding,
        d_loss,
        d_token_embedding_from_lookup_totals,
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
