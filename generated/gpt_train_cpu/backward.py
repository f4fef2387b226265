"""The backward pass of LanguageModel: what autograd calls, and the gradients as kernels.

Quoted is the statement that a paragraph differentiates, or computes again because that is cheaper than to
keep it. Gradients have the word of what they belong to: d_x is the gradient of x.
"""

from typing import NamedTuple

import torch

from . import kernels
from .runtime import empty, own_types


class BlockSaved(NamedTuple):
    """What one of gpt.blocks keeps for its backward pass: what it made, and its weights."""

    x: torch.Tensor  # float32 (batch, seq, dim)
    qkv: torch.Tensor  # float32 (batch, seq, qkv_dim)
    mixed: torch.Tensor  # float32 (batch, n_heads, seq, head_dim)
    logsumexp: torch.Tensor  # float32 (batch, n_heads, seq)
    residual: torch.Tensor  # float32 (batch, seq, dim)
    widen: torch.Tensor  # float32 (batch, seq, widen_dim)
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
        with own_types("cpu"):
            return None, None, None, *language_model_backward(saved, d_loss.contiguous())


def block_backward(saved, d_output):
    """What one of gpt.blocks hands on to the layer before it, and the gradients of its weights."""
    batch, seq, widen_dim = saved.widen.shape
    dim = saved.residual.shape[2]
    _, n_heads, _, head_dim = saved.mixed.shape
    qkv_dim = saved.qkv.shape[2]

    # Mlp.forward    return self.narrow(hidden)
    d_narrow_bias = empty((dim,), torch.float32)
    kernels.column_sum(d_output, d_narrow_bias, batch * seq, dim)
    d_hidden = torch.mm(d_output, saved.narrow_weight)

    # Mlp.forward    hidden = F.gelu(self.widen(x), approximate="tanh")
    hidden = empty(d_hidden.shape, torch.float32)
    d_widen = d_hidden  # in place: nothing reads d_hidden afterwards
    d_widen_bias = empty((widen_dim,), torch.float32)
    kernels.gelu_and_d_gelu_column_sum(
        saved.widen, d_hidden, hidden, d_widen, d_widen_bias, batch * seq, widen_dim
    )

    d_narrow_weight = torch.mm(d_output.T, hidden)
    d_ln_2 = torch.mm(d_widen, saved.widen_weight)

    # Block.forward    return x + self.mlp(self.ln_2(x))
    ln_2 = empty(d_output.shape, torch.float32)
    d_residual = d_ln_2  # in place: nothing reads d_ln_2 afterwards
    d_ln_2_bias = empty(saved.ln_2_weight.shape, torch.float32)
    d_ln_2_weight = empty(saved.ln_2_weight.shape, torch.float32)
    kernels.layer_norm_and_d_add_layer_norm(
        saved.residual,
        saved.ln_2_weight,
        saved.ln_2_bias,
        d_output,
        d_ln_2,
        ln_2,
        d_residual,
        d_ln_2_bias,
        d_ln_2_weight,
        n_rows=batch * seq,
        n_cols=dim,
        eps=1e-5,
    )

    d_widen_weight = torch.mm(d_widen.T, ln_2)

    # CausalSelfAttention.forward    return self.proj(mixed)
    d_proj_bias = empty((dim,), torch.float32)
    kernels.column_sum(d_residual, d_proj_bias, batch * seq, dim)
    d_mixed = torch.mm(d_residual, saved.proj_weight)
    mixed_view = saved.mixed.transpose(1, 2).reshape(batch, seq, dim)
    d_proj_weight = torch.mm(d_residual.T, mixed_view.reshape(-1, dim))

    # CausalSelfAttention.forward    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    d_mixed = d_mixed.reshape(batch, seq, n_heads, head_dim).transpose(1, 2)
    q, k, v = saved.qkv.view(batch, seq, 3, n_heads, -1).transpose(1, 3).unbind(2)
    d_q, d_k, d_v = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default(
        d_mixed, q, k, v, saved.mixed, saved.logsumexp, dropout_p=0.0, is_causal=True
    )

    # CausalSelfAttention.forward    q, k, v = self.qkv(x).split(dim, dim=-1)
    d_q = d_q.transpose(1, 2).reshape(batch, seq, dim).contiguous()
    d_k = d_k.transpose(1, 2).reshape(batch, seq, dim).contiguous()
    d_v = d_v.transpose(1, 2).reshape(batch, seq, dim).contiguous()
    d_qkv = empty((batch * seq, qkv_dim), torch.float32)
    d_qkv_bias = empty((qkv_dim,), torch.float32)
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
    ln_1 = empty(d_residual.shape, torch.float32)
    d_x = d_ln_1  # in place: nothing reads d_ln_1 afterwards
    d_ln_1_bias = empty(saved.ln_1_weight.shape, torch.float32)
    d_ln_1_weight = empty(saved.ln_1_weight.shape, torch.float32)
    kernels.layer_norm_and_d_add_layer_norm(
        saved.x,
        saved.ln_1_weight,
        saved.ln_1_bias,
        d_residual,
        d_ln_1,
        ln_1,
        d_x,
        d_ln_1_bias,
        d_ln_1_weight,
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
    max_positions = 128

    # GPT.forward    return self.head(self.ln_f(x))
    d_x = empty(unscaled_d_ln_f.shape, torch.float32)
    d_ln_f_weight = empty(ln_f_weight.shape, torch.float32)
    d_ln_f_bias = empty(ln_f_weight.shape, torch.float32)
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

    d_blocks = {}
    for layer in reversed(range(len(saved_blocks))):
        d_x, *d_blocks[layer] = block_backward(saved_blocks.pop(), d_x)

    # GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)
    d_position_embedding = empty((1, seq, dim), torch.float32)
    kernels.column_sum(d_x, d_position_embedding, batch, seq * dim)
    d_position_embedding_weight = empty((max_positions, dim), torch.float32)
    kernels.pad(
        d_position_embedding, d_position_embedding_weight, n_rows=max_positions, n_cols=dim, n_filled=seq
    )
    # Where it writes is data: ATen does it.
    d_token_embedding_from_lookup = torch.ops.aten.embedding_dense_backward.default(
        d_x.view(batch, seq, dim), tokens, num_weights=vocab_size, padding_idx=-1, scale_grad_by_freq=False
    )

    d_token_embedding_weight = empty(unscaled_d_token_embedding.shape, torch.float32)
    kernels.d_token_embedding_weight(
        unscaled_d_token_embedding,
        d_loss,
        d_token_embedding_from_lookup,
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
