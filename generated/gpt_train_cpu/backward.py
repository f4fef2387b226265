"""The backward pass of LanguageModel: what autograd calls, and the gradients as kernels.

Quoted is the statement that a paragraph differentiates, or computes again because that is cheaper than to
keep it. Gradients have the word of what they belong to: d_x is the gradient of x.
"""

import torch

from . import kernels
from .runtime import empty


class LanguageModelFunction(torch.autograd.Function):
    """LanguageModel with gradients, which have no gradients themselves."""

    @staticmethod
    def forward(ctx, model, tokens, targets, *parameters):
        (
            losses,
            x,
            qkv,
            mixed,
            logsumexp,
            out,
            widen,
            x_plus_mlp,
            gpt_targets,
            gpt_x,
            outs,
            qkvs,
            mixeds,
            logsumexps,
            xes,
            widens,
        ) = model.launch(tokens, targets)
        blocks = zip(
            [layer.mlp.narrow.weight for layer in model.gpt.blocks],
            [widen, *widens],
            [layer.mlp.widen.weight for layer in model.gpt.blocks],
            [out, *xes],
            [layer.ln_2.weight for layer in model.gpt.blocks],
            [layer.ln_2.bias for layer in model.gpt.blocks],
            [layer.attn.proj.weight for layer in model.gpt.blocks],
            [mixed, *mixeds],
            [qkv, *qkvs],
            [logsumexp, *logsumexps],
            [layer.attn.qkv.weight for layer in model.gpt.blocks],
            [x, *outs],
            [layer.ln_1.weight for layer in model.gpt.blocks],
            [layer.ln_1.bias for layer in model.gpt.blocks],
            strict=True,
        )
        ctx.save_for_backward(
            model.gpt.ln_f.weight,
            tokens,
            x_plus_mlp,
            gpt_targets,
            gpt_x,
            *(tensor for layer in blocks for tensor in layer),
        )
        return (losses,)

    @staticmethod
    def backward(ctx, d_cross_entropy_loss):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "LanguageModel has no second derivative: create_graph=True takes the eager model"
            )
        saved = list(ctx.saved_tensors)
        ctx.maybe_clear_saved_tensors()  # unless the graph is retained, each is dropped once it is read
        with torch.autocast("cpu", enabled=False):  # the kernels have types of their own
            return None, None, None, *language_model_backward(saved, d_cross_entropy_loss.contiguous())


def block_backward(
    narrow_weight,
    widen,
    widen_weight,
    x,
    ln_2_weight,
    ln_2_bias,
    proj_weight,
    mixed,
    qkv,
    logsumexp,
    qkv_weight,
    out,
    ln_1_weight,
    ln_1_bias,
    d_x,
):
    """What one of gpt.blocks hands on to the layer before it, and the gradients of its weights."""
    batch, seq, _ = widen.shape
    dim = x.shape[2]
    n_heads = mixed.shape[1]

    # Mlp.forward    return self.narrow(hidden)
    d_narrow_bias = empty((dim,), torch.float32)
    kernels.column_sum(d_x, d_narrow_bias, batch * seq, dim)
    d_hidden = torch.mm(d_x.reshape(-1, dim), narrow_weight)

    # Mlp.forward    hidden = F.gelu(self.widen(x), approximate="tanh")
    hidden = empty(widen.shape, torch.float32)
    d_widen = d_hidden.view(batch, seq, 512)  # in place: nothing reads d_hidden afterwards
    d_widen_bias = empty((512,), torch.float32)
    kernels.gelu_d_gelu_column_sum(widen, d_hidden, hidden, d_widen, d_widen_bias, batch * seq, 512)

    # Mlp.forward    return self.narrow(hidden)
    d_narrow_weight = torch.mm(d_x.reshape(-1, dim).transpose(0, 1), hidden.reshape(-1, 512))

    # Mlp.forward    hidden = F.gelu(self.widen(x), approximate="tanh")
    d_ln_2 = torch.mm(d_widen.reshape(-1, 512), widen_weight)

    # Block.forward    return x + self.mlp(self.ln_2(x))
    ln_2 = empty(x.shape, torch.float32)
    product = empty(x.shape, torch.float32)
    kernels.layer_norm_d_layer_norm_add(
        x, ln_2_weight, ln_2_bias, d_x, d_ln_2, ln_2, product, d_x, batch * seq, dim, 1e-5
    )  # in place

    # Mlp.forward    hidden = F.gelu(self.widen(x), approximate="tanh")
    d_widen_weight = torch.mm(d_widen.reshape(-1, 512).transpose(0, 1), ln_2.reshape(-1, dim))

    # Block.forward    return x + self.mlp(self.ln_2(x))
    d_ln_2_bias = empty((128,), torch.float32)
    d_ln_2_weight = empty((dim,), torch.float32)
    kernels.d_layer_norm_columns_and_sum(d_ln_2, product, d_ln_2_bias, d_ln_2_weight, batch * seq, dim)

    # CausalSelfAttention.forward    return self.proj(mixed)
    d_proj_bias = empty((dim,), torch.float32)
    kernels.column_sum(d_x, d_proj_bias, batch * seq, dim)
    d_mixed = torch.mm(d_x.reshape(-1, dim), proj_weight)
    mixed_view = mixed.transpose(1, 2).reshape(batch, seq, dim)
    d_proj_weight = torch.mm(d_x.reshape(-1, dim).transpose(0, 1), mixed_view.reshape(-1, dim))

    # CausalSelfAttention.forward    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    d_mixed = d_mixed.reshape(4, 64, 128)
    d_mixed = d_mixed.reshape(4, 64, 4, 32).transpose(1, 2)
    q, k, v = qkv.view(batch, seq, 3, n_heads, -1).transpose(1, 3).unbind(2)
    d_q, d_k, d_v = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default(
        d_mixed, q, k, v, mixed, logsumexp, 0.0, True
    )

    # CausalSelfAttention.forward    q, k, v = self.qkv(x).split(dim, dim=-1)
    d_q = d_q.transpose(1, 2).reshape(4, 64, 128)
    d_q_contiguous = d_q.contiguous()
    d_k = d_k.transpose(1, 2).reshape(4, 64, 128)
    d_k_contiguous = d_k.contiguous()
    d_v = d_v.transpose(1, 2).reshape(4, 64, 128)
    d_v_contiguous = d_v.contiguous()
    d_qkv = empty((4, 64, 384), torch.float32)
    d_qkv_bias = empty((384,), torch.float32)
    kernels.cat_and_column_sum(
        d_q_contiguous,
        d_k_contiguous,
        d_v_contiguous,
        d_qkv,
        d_qkv_bias,
        4 * 64,
        384,
        128,
        128,
        128,
        128,
        256,
    )
    d_ln_1 = torch.mm(d_qkv.reshape(-1, 384), qkv_weight)

    # Block.forward    x = x + self.attn(self.ln_1(x))
    ln_1 = empty(out.shape, torch.float32)
    product = empty(out.shape, torch.float32)
    d_out = d_x  # in place: nothing reads d_x afterwards
    kernels.layer_norm_d_layer_norm_add(
        out, ln_1_weight, ln_1_bias, d_x, d_ln_1, ln_1, product, d_out, batch * seq, dim, 1e-5
    )

    # CausalSelfAttention.forward    q, k, v = self.qkv(x).split(dim, dim=-1)
    d_qkv_weight = torch.mm(d_qkv.reshape(-1, 384).transpose(0, 1), ln_1.reshape(-1, dim))

    # Block.forward    x = x + self.attn(self.ln_1(x))
    d_ln_1_bias = empty((128,), torch.float32)
    d_ln_1_weight = empty((dim,), torch.float32)
    kernels.d_layer_norm_columns_and_sum(d_ln_1, product, d_ln_1_bias, d_ln_1_weight, batch * seq, dim)
    return (
        d_out,
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


def language_model_backward(saved, d_cross_entropy_loss):
    """The gradients of LanguageModel's arguments and parameters, in their order; empties the list `saved`."""
    ln_f_weight, tokens, x, gpt_targets, gpt_x, *of_layers = saved
    saved.clear()
    blocks = [of_layers[at : at + 14] for at in range(0, len(of_layers), 14)]
    del of_layers
    batch, seq = tokens.shape
    dim = x.shape[2]

    # GPT.forward    return self.head(self.ln_f(x))
    d_ln_f = empty(gpt_targets.shape, torch.float32)
    d_ln_f_bias = empty((128,), torch.float32)
    kernels.mul_and_d_layer_norm_columns(gpt_targets, d_cross_entropy_loss, d_ln_f, d_ln_f_bias, 256, 128)
    ln_f = empty(x.shape, torch.float32)
    d_x = empty(x.shape, torch.float32)
    kernels.layer_norm_d_layer_norm_and_d_layer_norm(
        x, d_ln_f, ln_f_weight, ln_f, d_x, batch * seq, dim, 1e-5
    )
    d_ln_f_weight = empty((dim,), torch.float32)
    kernels.d_layer_norm_columns(d_ln_f, ln_f, d_ln_f_weight, batch * seq, dim)

    d_blocks = {}
    for layer in reversed(range(4)):
        d_x, *d_blocks[layer] = block_backward(*blocks.pop(), d_x)

    # GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)
    d_position_embedding = empty((1, seq, dim), torch.float32)
    kernels.column_sum(d_x, d_position_embedding, batch, seq * dim)
    d_position_embedding_weight = empty((128, 128), torch.float32)
    kernels.pad(d_position_embedding, d_position_embedding_weight, 128, 128, 64)
    token_embedding = torch.ops.aten.embedding_dense_backward.default(d_x, tokens, 512, -1, False)

    # GPT.forward    return self.head(self.ln_f(x))
    # GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)
    d_token_embedding_weight = empty(gpt_x.shape, torch.float32)
    d_weight_contiguous = empty(gpt_x.shape, torch.float32)
    kernels.mul_add(
        gpt_x,
        d_cross_entropy_loss,
        token_embedding,
        d_token_embedding_weight,
        d_weight_contiguous,
        d_weight_contiguous.numel(),
    )
    return (
        d_weight_contiguous,
        d_position_embedding_weight,
        *(gradient for layer in range(4) for gradient in d_blocks[layer]),
        d_ln_f_weight,
        d_ln_f_bias,
    )
