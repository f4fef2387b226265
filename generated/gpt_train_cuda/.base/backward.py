"""The backward pass of LanguageModel: what autograd calls, and the gradients as kernels.

Quoted is the statement that a paragraph differentiates, or computes again because that is cheaper than to
keep it. Gradients have the word of what they belong to: d_x is the gradient of x.
"""

from typing import NamedTuple

import torch

from . import kernels
from .runtime import cudnn_attention_backward, own_types


class BlockSaved(NamedTuple):
    """What one of gpt.blocks keeps for its backward pass: what it made, and its weights."""

    x: torch.Tensor  # bfloat16 (batch, seq, dim)
    qkv: torch.Tensor  # bfloat16 (batch, seq, qkv_dim)
    mixed: torch.Tensor  # bfloat16 (batch, n_heads, seq, head_dim)
    logsumexp: torch.Tensor  # float32 (batch, n_heads, seq, 1)
    philox_seed: torch.Tensor  # int64 ()
    philox_offset: torch.Tensor  # int64 ()
    residual: torch.Tensor  # bfloat16 (batch, seq, dim)
    widen: torch.Tensor  # bfloat16 (batch, seq, widen_dim)
    narrow_weight: torch.Tensor  # mlp.narrow.weight
    widen_weight: torch.Tensor  # mlp.widen.weight
    ln_2_weight: torch.Tensor  # ln_2.weight
    ln_2_bias: torch.Tensor  # ln_2.bias
    proj_weight: torch.Tensor  # attn.proj.weight
    qkv_weight: torch.Tensor  # attn.qkv.weight
    ln_1_weight: torch.Tensor  # ln_1.weight
    ln_1_bias: torch.Tensor  # ln_1.bias


class LanguageModelFunction(torch.autograd.Function):
    """LanguageModel with gradients, which have no gradients themselves."""

    @staticmethod
    def forward(ctx, model, tokens, targets, *parameters):
        loss, x, unscaled_d_ln_f, unscaled_d_token_embedding, saved_blocks = model.launch(tokens, targets)
        ctx.save_for_backward(
            model.gpt.ln_f.weight,
            tokens,
            x,
            unscaled_d_ln_f,
            unscaled_d_token_embedding,
            *(tensor for saved in saved_blocks for tensor in saved),
        )
        return (loss,)

    @staticmethod
    def backward(ctx, d_loss):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "LanguageModel has no second derivative: create_graph=True takes the eager model"
            )
        saved = list(ctx.saved_tensors)
        ctx.maybe_clear_saved_tensors()  # unless the graph is retained, each is dropped once it is read
        with own_types("cuda"):
            return None, None, None, *language_model_backward(saved, d_loss.contiguous())


def block_backward(saved, d_output):
    """What one of gpt.blocks hands on to the layer before it, and the gradients of its weights."""
    batch, seq, widen_dim = saved.widen.shape
    dim = saved.residual.shape[2]
    _, n_heads, _, head_dim = saved.mixed.shape
    qkv_dim = saved.qkv.shape[2]

    # Mlp.forward    return self.narrow(hidden)
    d_narrow_bias = d_output.new_empty(dim)
    kernels.column_sum(d_output, d_narrow_bias, batch * seq, dim)
    d_hidden = torch.mm(d_output, saved.narrow_weight)

    # Mlp.forward    hidden = F.gelu(self.widen(x), approximate="tanh")
    hidden = torch.empty_like(d_hidden)
    d_widen = torch.empty_like(d_hidden)
    d_widen_bias = saved.widen.new_empty(widen_dim)
    kernels.gelu_and_d_gelu_column_sum(
        saved.widen, d_hidden, hidden, d_widen, d_widen_bias, batch * seq, widen_dim
    )
    del d_hidden

    d_narrow_weight = torch.mm(d_output.T, hidden)
    del hidden
    d_ln_2 = torch.mm(d_widen, saved.widen_weight)

    # Block.forward    return x + self.mlp(self.ln_2(x))
    ln_2 = torch.empty_like(d_output)
    d_residual = d_output  # in place: nothing reads d_output afterwards
    d_ln_2_weight = torch.empty_like(saved.ln_2_weight)
    d_ln_2_bias = torch.empty_like(saved.ln_2_weight)
    kernels.layer_norm_and_d_add_layer_norm(
        saved.residual,
        saved.ln_2_weight,
        saved.ln_2_bias,
        d_output,
        d_ln_2,
        ln_2,
        d_residual,
        d_ln_2_weight,
        d_ln_2_bias,
        n_rows=batch * seq,
        n_cols=dim,
        eps=1e-5,
    )
    del d_ln_2

    d_widen_weight = torch.mm(d_widen.T, ln_2)
    del d_widen, ln_2

    # CausalSelfAttention.forward    return self.proj(mixed)
    d_proj_bias = d_residual.new_empty(dim)
    kernels.column_sum(d_residual, d_proj_bias, batch * seq, dim)
    d_mixed = torch.mm(d_residual, saved.proj_weight)
    mixed_view = saved.mixed.transpose(1, 2).reshape(batch, seq, dim)
    d_proj_weight = torch.mm(d_residual.T, mixed_view.reshape(-1, dim))

    # CausalSelfAttention.forward    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    d_mixed = d_mixed.reshape(batch, seq, n_heads, head_dim).transpose(1, 2)
    q, k, v = saved.qkv.view(batch, seq, 3, n_heads, -1).transpose(1, 3).unbind(2)
    d_q, d_k, d_v = cudnn_attention_backward(
        d_mixed, q, k, v, saved.mixed, saved.logsumexp, saved.philox_seed, saved.philox_offset, is_causal=True
    )
    del d_mixed

    # CausalSelfAttention.forward    q, k, v = self.qkv(x).split(dim, dim=-1)
    d_q = d_q.transpose(1, 2).reshape(batch, seq, dim).contiguous()
    d_k = d_k.transpose(1, 2).reshape(batch, seq, dim).contiguous()
    d_v = d_v.transpose(1, 2).reshape(batch, seq, dim).contiguous()
    d_qkv = d_q.new_empty(batch * seq, qkv_dim)
    d_qkv_bias = d_q.new_empty(qkv_dim)
    kernels.d_qkv_and_bias(
        d_q,
        d_k,
        d_v,
        d_qkv,
        d_qkv_bias,
        n_rows=batch * seq,
        n_cols=qkv_dim,
        d_q_stride=dim,
        d_k_stride=dim,
        d_v_stride=dim,
        boundary=dim,
        second_boundary=2 * dim,
    )
    d_ln_1 = torch.mm(d_qkv, saved.qkv_weight)

    # Block.forward    x = x + self.attn(self.ln_1(x))
    ln_1 = torch.empty_like(d_residual)
    d_x = d_residual  # in place: nothing reads d_residual afterwards
    d_ln_1_weight = torch.empty_like(saved.ln_1_weight)
    d_ln_1_bias = torch.empty_like(saved.ln_1_weight)
    kernels.layer_norm_and_d_add_layer_norm(
        saved.x,
        saved.ln_1_weight,
        saved.ln_1_bias,
        d_residual,
        d_ln_1,
        ln_1,
        d_x,
        d_ln_1_weight,
        d_ln_1_bias,
        n_rows=batch * seq,
        n_cols=dim,
        eps=1e-5,
    )

    d_qkv_weight = torch.mm(d_qkv.T, ln_1)
    return (
        d_x,
        d_ln_1_weight,
        d_ln_1_bias,
        d_qkv_weight,
        d_qkv_bias,
        d_proj_weight,
        d_proj_bias,
        d_ln_2_weight,
        d_ln_2_bias,
        d_widen_weight,
        d_widen_bias,
        d_narrow_weight,
        d_narrow_bias,
    )


def language_model_backward(saved, d_loss):
    """The gradients of LanguageModel's arguments that have any, then of its parameters; empties `saved`."""
    ln_f_weight, tokens, x, unscaled_d_ln_f, unscaled_d_token_embedding, *of_layers = saved
    saved.clear()
    n_each = len(BlockSaved._fields)
    saved_blocks = [BlockSaved(*of_layers[at : at + n_each]) for at in range(0, len(of_layers), n_each)]
    del of_layers
    batch, seq = tokens.shape
    dim = x.shape[2]
    vocab_size = unscaled_d_token_embedding.shape[0]

    # GPT.forward    return self.head(self.ln_f(x))
    d_x = torch.empty_like(unscaled_d_ln_f)
    d_ln_f_weight = torch.empty_like(ln_f_weight)
    d_ln_f_bias = torch.empty_like(ln_f_weight)
    kernels.d_layer_norm(
        unscaled_d_ln_f,
        d_loss,
        ln_f_weight,
        x,
        d_x,
        d_ln_f_weight,
        d_ln_f_bias,
        n_rows=batch * seq,
        n_cols=dim,
        eps=1e-5,
    )
    del x, unscaled_d_ln_f

    d_blocks = {}
    for layer in reversed(range(len(saved_blocks))):
        d_x, *d_blocks[layer] = block_backward(saved_blocks.pop(), d_x)

    # GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)
    d_position_embedding_weight = d_x.new_empty(seq, dim)
    kernels.column_sum_weight(d_x, d_position_embedding_weight, batch, seq * dim)
    d_token_embedding_from_lookup_totals = torch.zeros(
        vocab_size, dim, dtype=torch.float32, device=tokens.device
    )
    kernels.d_embedding(
        tokens, d_x, d_token_embedding_from_lookup_totals, n_rows=batch * seq, n_cols=dim, n_places=vocab_size
    )
    del d_x

    d_token_embedding_weight = torch.empty_like(unscaled_d_token_embedding)
    kernels.d_token_embedding_weight(
        unscaled_d_token_embedding,
        d_loss,
        d_token_embedding_from_lookup_totals,
        d_token_embedding_weight,
        vocab_size * dim,
    )
    return (
        d_token_embedding_weight,
        d_position_embedding_weight,
        *(gradient for layer in range(len(d_blocks)) for gradient in d_blocks[layer]),
        d_ln_f_weight,
        d_ln_f_bias,
    )
