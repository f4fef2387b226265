"""Which ops a captured graph may hold: what stays whole, what is rewritten, what is decomposed, what disappears.

The rule: an op that a person would write as one call stays one functional ATen node; everything else is decomposed by
torch's own core ATen decompositions. A Python number may stand where a schema says Tensor (``add.Tensor(x, 1)``), and
dimensions and indices stay as the user gave them, negative ones included.

**Views** arrive as these overloads of ``torch.ops.aten`` and no others:

    reshape.default(x, sizes)           also view, flatten, unflatten, ravel: a view or a copy, only the value counts
    permute.default(x, dims)            also movedim
    transpose.int(x, dim0, dim1)        also t, mT, swapaxes
    expand.default(x, sizes)            also expand_as, broadcast_to
    select.int(x, dim, index)           slice.Tensor(x, dim, start=None, end=None, step=1)      also narrow
    unsqueeze.default(x, dim)           squeeze.dims(x, dims)
    split_with_sizes.default(x, sizes, dim) + operator.getitem          also split, chunk, tensor_split
    unbind.int(x, dim) + operator.getitem
    diagonal.default, unfold.default, view.dtype, view_as_complex, view_as_real, real, imag     as the user wrote them
    as_strided.default(clone(x, memory_format=contiguous), size, stride, offset)      of a contiguous copy

and what writing through a view becomes: ``slice_scatter``, ``select_scatter``, ``diagonal_scatter``, ``index_put``.

**Whole** (`KEPT_WHOLE`): softmax.int and log_softmax.int (`_softmax` is rewritten to it; the dtype argument stays),
layer_norm, rms_norm, group_norm, batch_norm with ``training=False``, activations, losses, linear, matmul, mm, bmm,
addmm, convolutions, scaled_dot_product_attention, embedding, var and std (``.correction``), var_mean, logsumexp,
linalg_vector_norm, pooling, interpolation, sort, topk, FFT, recurrent layers; and what refuses positions that its
decomposition would take (index_add, index_copy, one_hot).

**Decomposed by us**: CUDA's fused cells of a GRU and an LSTM (`FUSED_CELLS`), into what eager computes on the CPU.

**Rewritten**: any cast is ``_to_copy.default(x, dtype=...)``; ``zeros``, ``ones``, ``new_zeros``, ... are ``full``
and ``full_like``; einsum is permute/reshape/bmm; batch norm in training is `_native_batch_norm_legit_functional` and
writes.

**Gone**: clone, contiguous, alias, detach, lift_fresh, casts to the dtype a tensor has, views that change nothing,
dropout in eval, assertions. A clone remains only where a result must be fresh memory but its value is an input, a
constant or another result. In this functional graph strides mean nothing: ``meta["val"]`` has those of eager.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


# What eager chooses for scaled_dot_product_attention, where that choice is part of what is traced.
ATTENTIONS = _names("""
    _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention
    _scaled_dot_product_flash_attention_for_cpu
    """)

# By packet name in torch.ops.aten: all functional overloads are kept.
KEPT_WHOLE = ATTENTIONS | _names("""
    softmax _safe_softmax log_softmax layer_norm rms_norm group_norm batch_norm
    relu relu6 gelu gelu_backward silu elu selu celu leaky_relu prelu mish softplus softshrink hardshrink hardswish
    hardsigmoid hardtanh threshold log_sigmoid glu sigmoid tanh
    cross_entropy_loss nll_loss nll_loss_nd nll_loss2d mse_loss l1_loss smooth_l1_loss huber_loss
    binary_cross_entropy binary_cross_entropy_with_logits
    linear matmul mm bmm addmm baddbmm mv dot
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution
    scaled_dot_product_attention embedding
    var std var_mean std_mean mean sum prod logsumexp linalg_vector_norm logaddexp logaddexp2 all any
    max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d
    upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d
    upsample_trilinear3d upsample_bicubic2d _upsample_nearest_exact1d _upsample_nearest_exact2d
    _upsample_nearest_exact3d grid_sampler
    sort topk cumsum cumprod argsort
    index_add index_copy index_fill one_hot
    special_log_ndtr masked_fill stack tril triu roll square lstm gru rnn_tanh rnn_relu
    fft_fft fft_fft2 fft_fftn fft_ifft fft_ifft2 fft_ifftn fft_rfft fft_rfft2 fft_rfftn fft_irfft fft_irfft2
    fft_irfftn fft_hfft fft_ihfft
    transpose squeeze unbind permute expand
    """)

# Ops that vanish: their value is their first argument. The result of a FRESH one is memory of its own, that of an
# ALIAS one is its argument seen again.
FRESH_IDENTITIES = _names("clone lift_fresh_copy alias_copy detach_copy")
ALIAS_IDENTITIES = _names("alias detach detach_ lift_fresh lift contiguous")

# Gone when their `train` argument is False.
DROPOUTS = _names("dropout feature_dropout alpha_dropout feature_alpha_dropout native_dropout")

# Ops without a result that a compiled graph needs.
CHECKS = _names("""
    _assert_async _assert_scalar _assert_tensor_metadata _functional_assert_async _functional_assert_scalar
    sym_constrain_range sym_constrain_range_for_size _functional_sym_constrain_range
    """)

# Views made of other views, which torch's table leaves out: decomposed where no part of a complex number is meant.
COMPOSITE_VIEWS = _names("""
    hsplit vsplit dsplit tensor_split atleast_1d atleast_2d atleast_3d movedim moveaxis linalg_diagonal
    real positive resolve_conj resolve_neg
    """)

# Casts and moves: one `_to_copy` each, or nothing.
CASTS = _names("to _to_copy type_as")

# Views whose inverse is a reshape: they keep the elements in row-major order.
RESHAPES = _names("view _unsafe_view reshape _reshape_alias flatten unflatten view_as reshape_as ravel")


def gru_cell(
    of_input: torch.Tensor,
    of_state: torch.Tensor,
    state: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    state_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """A GRU's step after its products (batch, 3 * hidden): the new state, and what eager's backward would read.

    (aten/src/ATen/native/cuda/RNN.cu; Cho et al., 2014, with the reset gate behind the product.)
    """
    of_input = of_input if input_bias is None else of_input + input_bias
    of_state = of_state if state_bias is None else of_state + state_bias
    (input_r, input_z, input_n), (state_r, state_z, state_n) = of_input.chunk(3, 1), of_state.chunk(3, 1)
    r = torch.sigmoid(input_r + state_r)
    z = torch.sigmoid(input_z + state_z)
    n = torch.tanh(input_n + r * state_n)
    return n + z * (state - n), torch.cat([r, z, n, state, state_n], 1)


def lstm_cell(
    of_input: torch.Tensor,
    of_state: torch.Tensor,
    cell: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    state_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """An LSTM's step after its products (batch, 4 * hidden): state, cell, and what eager's backward would read.

    (aten/src/ATen/native/cuda/RNN.cu; Hochreiter and Schmidhuber, 1997, with a forget gate.)
    """
    gates = of_input + of_state
    for bias in (input_bias, state_bias):
        gates = gates if bias is None else gates + bias
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
    cell = f * cell + i * g
    return o * torch.tanh(cell), cell, torch.cat([i, f, g, o], 1)


# What eager runs on CUDA alone, and has no derivative that can be traced: here a kernel of ours, as on the CPU.
FUSED_CELLS: dict[torch._ops.OpOverload, Callable[..., Any]] = {
    aten._thnn_fused_gru_cell.default: gru_cell,
    aten._thnn_fused_lstm_cell.default: lstm_cell,
}


def is_kept(target: torch._ops.OpOverload) -> bool:
    """Whether nodes of this op reach the captured graph as they are."""
    return (
        target.namespace != "aten" or packet_name(target) in KEPT_WHOLE or target not in decomposition_table()
    )


def packet_name(target: torch._ops.OpOverload) -> str:
    """``softmax`` of ``torch.ops.aten.softmax.int``."""
    return target._schema.name.split("::")[1]


@functools.cache
def decomposition_table() -> dict[torch._ops.OpOverload, Callable[..., Any]]:
    """torch's decompositions to core ATen (composite ops included), less what we keep whole."""
    table = torch.export.default_decompositions().materialize()
    return {
        op: function
        for op, function in table.items()
        if isinstance(op, torch._ops.OpOverload) and packet_name(op) not in KEPT_WHOLE
    } | FUSED_CELLS
