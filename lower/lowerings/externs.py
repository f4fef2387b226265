"""Library calls: what a library does best, and everything that has no lowering, with the reason on it.

Of products and convolutions it is said as loops, too, what the library computes (`lower.lowerings.contractions`).
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture.graph import differentiated, node_depends_on_data
from longhand.lower.body import Size
from longhand.lower.context import Context
from longhand.lower.ir import Derivation, Extern, View
from longhand.lower.layouts import (
    CONVOLUTIONS,
    channels_last_strides,
    forgets_padding,
    has_strides,
    is_channels_last,
    is_convolution,
    is_convolution_backward,
    may_seem_last,
)
from longhand.lower.lowerings.contractions import contraction_of
from longhand.lower.lowerings.gradients_of_attention import lies_by_position, strides_by_position
from longhand.lower.sizes import as_number, as_size, contiguous_strides, multiply, same
from longhand.lower.views import TensorView

aten = torch.ops.aten

StridesOf = Callable[[Sequence[Size]], tuple[Size, ...]]

# Products whose result is contiguous whatever the layout of the arguments.
_CONTIGUOUS = frozenset(
    {
        aten.mm.default,
        aten.bmm.default,
        aten.addmm.default,
        aten.baddbmm.default,
        aten.addmv.default,
        aten.mv.default,
        aten.dot.default,
        aten.linear.default,
        aten._grouped_mm.default,
        aten.embedding_dense_backward.default,
        aten.empty.memory_format,
    }
)
# Their results are contiguous if all tensor arguments are.
_CONTIGUOUS_OF_CONTIGUOUS = frozenset(
    {
        aten.convolution.default,
        aten.conv1d.default,
        aten.conv2d.default,
        aten.conv3d.default,
        aten.max_pool2d.default,
        aten.max_pool2d_with_indices.default,
        aten.avg_pool2d.default,
        aten._adaptive_avg_pool2d.default,
        aten.adaptive_avg_pool2d.default,
        aten.avg_pool2d_backward.default,
    }
)
# Their results, all of them, are channels last if the images are.
_KEEPS_CHANNELS_LAST = frozenset(
    {
        aten.max_pool2d.default,
        aten.max_pool2d_with_indices.default,
        aten.avg_pool2d.default,
        aten._adaptive_avg_pool2d.default,
        aten.adaptive_avg_pool2d.default,
        aten.upsample_nearest2d.default,
        aten.upsample_nearest2d.vec,
        aten.upsample_bilinear2d.default,
        aten.upsample_bilinear2d.vec,
    }
)
# How many images these take, their first arguments: the gradients of what is above a result's gradient, and most of
# them the images that it was made of.
_N_IMAGES: dict[Any, int] = {
    **dict.fromkeys(CONVOLUTIONS | _KEEPS_CHANNELS_LAST, 1),
    aten.convolution_backward.default: 2,
    aten.max_pool2d_with_indices_backward.default: 2,
    aten.avg_pool2d_backward.default: 2,
    aten.upsample_nearest2d_backward.default: 1,
    aten.upsample_bilinear2d_backward.default: 1,
}
# A library does these best. By the op's name without its overload.
_LIBRARY_OPS = """
    mm bmm addmm baddbmm addbmm addmv mv dot vdot linear matmul bilinear einsum _grouped_mm _int_mm _scaled_mm
    convolution conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
    scaled_dot_product_attention _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_cudnn_attention
    _scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward
    _scaled_dot_product_flash_attention_for_cpu_backward _scaled_dot_product_cudnn_attention_backward
    convolution_backward embedding_dense_backward max_pool2d_with_indices_backward
    avg_pool2d_backward avg_pool3d_backward upsample_bilinear2d_backward upsample_nearest2d_backward
    sort argsort topk kthvalue median nanmedian mode msort unique_dim _unique2 searchsorted bucketize
    _fft_c2c _fft_c2r _fft_r2c fft_fft fft_ifft fft_rfft fft_irfft fft_fft2 fft_ifft2 fft_fftn fft_ifftn
    fft_rfft2 fft_rfftn fft_irfft2 fft_irfftn fft_hfft fft_ihfft max_pool1d max_pool2d max_pool3d
    max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d
    adaptive_avg_pool2d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d
    upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d
    upsample_trilinear3d upsample_bicubic2d _upsample_nearest_exact1d _upsample_nearest_exact2d
    _upsample_nearest_exact3d grid_sampler grid_sampler_2d grid_sampler_3d lstm gru rnn_tanh rnn_relu _cudnn_rnn
    linalg_inv linalg_inv_ex linalg_solve linalg_qr linalg_svd _linalg_svd linalg_eigh _linalg_eigh linalg_cholesky
    linalg_cholesky_ex linalg_lu_factor linalg_det _linalg_det linalg_matrix_exp cumsum cumprod logcumsumexp cummax
    cummin empty empty_permuted
"""
_BEST_IN_LIBRARY = frozenset(_LIBRARY_OPS.split())

# Kernels behind the call that people write, which is what makes their arguments contiguous: of others they raise, or
# read the wrong elements.
_TAKES_CONTIGUOUS = frozenset(
    {
        aten.native_group_norm.default,
        aten.native_group_norm_backward.default,
        aten._weight_norm_interface.default,
        aten._weight_norm_interface_backward.default,
        aten._embedding_bag.default,
        aten._embedding_bag_forward_only.default,
        aten._embedding_bag_backward.default,
        aten._embedding_bag_dense_backward.default,
        aten._embedding_bag_per_sample_weights_backward.default,
    }
)

# Attention's kernels for GPUs read whole rows: of an argument whose last dimension is spread they raise.
_TAKES_ROWS = frozenset(
    getattr(aten, f"_scaled_dot_product_{kind}_attention{end}").default
    for kind in ("flash", "efficient", "cudnn")
    for end in ("", "_backward")
)

# Results of these would share memory with an argument; their twins copy.
_COPYING_TWIN = {
    aten.view_as_real.default: aten.view_as_real_copy.default,
    aten.view_as_complex.default: aten.view_as_complex_copy.default,
    aten.view.dtype: aten.view_copy.dtype,
    aten._conj.default: aten._conj_copy.default,
    aten._neg_view.default: aten._neg_view_copy.default,
    aten.as_strided.default: aten.as_strided_copy.default,
}


def call_extern(ctx: Context, declined: str | None = None) -> Any:
    """The node as one library call on views.

    Args:
        ctx: The program and the node.
        declined: Why the op's lowering does not apply here; None if it has none.

    Returns:
        The node's result: a TensorView, or a tuple of them (None where a result is no tensor).
    """
    node = ctx.node
    target = node.target
    assert isinstance(target, torch._ops.OpOverload)
    images = {} if ctx.is_cuda and forgets_padding(ctx.node) else _images(ctx)
    args = tuple(
        ctx.argument(images[place]) if place in images else extern_argument(ctx, argument)
        for place, argument in enumerate(node.args)
    )
    kwargs = {name: extern_argument(ctx, argument) for name, argument in node.kwargs.items()}
    value = node.meta["val"]
    of_data = node_depends_on_data(node)
    if target is aten.clone.default and not kwargs and not of_data and value.is_contiguous():
        kwargs = {"memory_format": torch.contiguous_format}  # else it would lie as its argument does
    several = isinstance(value, list | tuple)
    memory_format = torch.channels_last if images and not of_data and not several else None
    lies_as_images = memory_format is not None or (bool(images) and target in _KEEPS_CHANNELS_LAST)
    known = not of_data and (lies_as_images or _layout_is_known(ctx, target, args))
    made: list[TensorView | None] = []
    for position, item in enumerate(value if several else [value]):
        place = position if several else None
        is_wanted = isinstance(item, torch.Tensor) and (place is None or _is_read(node, place))
        strides_of = channels_last_strides if images else None
        is_known = known
        if target is aten.convolution_backward.default:  # by runtime.py, whatever the library makes
            is_known = not of_data and _lies_as_given(ctx, images, args, position)
            if position or not images:
                strides_of = contiguous_strides if is_known else None
        elif not of_data and _is_contiguous_anyway(target, item):
            is_known = True
        elif not of_data and lies_by_position(target, place, item):
            is_known, strides_of = True, strides_by_position
        made.append(_make_output(ctx, place, is_known, strides_of) if is_wanted else None)
    outputs = tuple("" if view is None else view.buffer for view in made if target._schema.returns)
    twin = _COPYING_TWIN.get(target, target)
    mutates = _mutated(target, args, kwargs)
    reason = _reason(target, declined)
    ctx.call(twin, args, kwargs, outputs=outputs, mutates=mutates, reason=reason, memory_format=memory_format)
    call = ctx.steps[-1]
    assert isinstance(call, Extern)
    if of_data:
        call = ctx.steps[-1] = dataclasses.replace(call, measured=_measured(ctx, (args, kwargs)))
    ctx.steps[-1] = call if of_data else contraction_of(call, ctx.buffers)
    if _shares_memory(twin):
        made = [None if view is None else _detached(ctx, view) for view in made]
    return tuple(made) if several else made[0]


def call_read(ctx: Context) -> TensorView:
    """A number that the call returns, read from a tensor: a buffer in name only."""
    source = ctx.node.args[0]
    assert isinstance(source, fx.Node)
    dtype = source.meta["val"].dtype
    made = ctx.make_buffer(ctx.name, dtype, (), layout_is_known=False)
    args = (extern_argument(ctx, source),)
    ctx.call(aten.item.default, args, outputs=(made.buffer,), reason="The call returns a number.")
    return made


def _measured(ctx: Context, arguments: Any) -> tuple[str, ...]:
    """The buffers whose sizes, known from data alone, are among the arguments of a call as numbers."""
    leaves = pytree.tree_leaves(arguments)
    symbols = {symbol for leaf in leaves if isinstance(leaf, sympy.Expr) for symbol in leaf.free_symbols}
    return tuple(ctx.values[size.node].buffer for size in ctx.graph.data_sizes if size.symbol in symbols)


def _images(ctx: Context) -> dict[int, TensorView]:
    """The images that a call takes channels last, as they are to be given, by their place; none of most calls.

    A convolution and its gradients have theirs brought to that, where the graph works so. Others keep what they find.
    """
    node = ctx.node
    given: list[TensorView] = []
    for source in node.args[: _N_IMAGES.get(node.target, 0)]:
        if not isinstance(source, fx.Node):
            return {}
        given.append(ctx.values[source.name])
    if not given:
        return {}
    if ctx.keeps_channels_last and is_convolution(node):
        return {0: _given_last(ctx, ctx.channels_last(given[0]))}
    if is_channels_last(given[-1]) or (ctx.keeps_channels_last and is_convolution_backward(node)):
        given = [_given_last(ctx, ctx.channels_last(image)) for image in given]
    return dict(enumerate(given)) if is_channels_last(given[-1]) else {}


def _given_last(ctx: Context, image: TensorView) -> TensorView:
    """An image whose channels lie last, as a call can be given it: what is no plain view would become contiguous."""
    is_plain = not is_channels_last(image) or image.as_ir() is not None
    return image if is_plain else ctx.copy(image, stride=channels_last_strides(image.shape))


def _lies_as_given(ctx: Context, images: dict[int, TensorView], args: tuple[Any, ...], position: int) -> bool:
    """Whether the gradient of a convolution's images or weight (0 or 1) lies as these do, and how is known."""
    if position == 0 and images:
        return True
    return position < 2 and _is_contiguous(ctx, args[1 + position])


def extern_argument(ctx: Context, value: Any) -> Any:
    """An argument of the node as that of a library call: tensors as views of buffers."""
    if isinstance(value, fx.Node) and isinstance(ctx.values[value.name], TensorView):
        which = differentiated(ctx.node.target)
        called = ctx.node.target if which is None else which.target
        takes_contiguous = called in _TAKES_CONTIGUOUS or (ctx.is_cuda and forgets_padding(ctx.node))
        if takes_contiguous or _are_no_pairs(ctx.node.target, value.meta["val"]):
            return ctx.argument(_contiguous(ctx, ctx.values[value.name]))
        if ctx.node.target in _TAKES_ROWS and _has_spread_rows(ctx.values[value.name]):
            return ctx.argument(_contiguous(ctx, ctx.values[value.name]))
        if _depends_on_layout(ctx.node.target):
            view = ctx.values[value.name]
            laid_out = ctx.as_in_eager(view, value.meta["val"])
            if laid_out is not view:
                return ctx.argument(laid_out)
        return ctx.node_argument(value)
    if isinstance(value, fx.Node):
        value = ctx.values[value.name]
    if isinstance(value, TensorView):
        return ctx.argument(value)
    if isinstance(value, list | tuple):
        return tuple(extern_argument(ctx, item) for item in value)
    if isinstance(value, torch.SymFloat):
        return as_number(value)
    return as_size(value) if isinstance(value, torch.SymInt) else value


def _has_spread_rows(view: TensorView) -> bool:
    """Whether elements of the last dimension do not lie side by side."""
    strides = view.strides()
    return bool(strides) and view.size(-1) != 1 and strides[-1] != 1  # type: ignore[index]


def _are_no_pairs(target: Any, value: Any) -> bool:
    """Whether view_as_complex may raise: the .contiguous() of eager's derivative leaves nothing in a trace."""
    return target is aten.view_as_complex.default and (value.is_contiguous() or value.stride(-1) != 1)


def _contiguous(ctx: Context, view: TensorView) -> TensorView:
    plain = ctx.readable(view)
    return plain if has_strides(plain, contiguous_strides(plain.shape)) else ctx.copy(plain)


def _is_read(node: fx.Node, position: int) -> bool:
    """Whether anything takes this of a call's several results."""
    return any(user.target is not operator.getitem or user.args[1] == position for user in node.users)


def _depends_on_layout(target: Any) -> bool:
    """Whether a call may compute something else, or raise, where an argument is laid out otherwise than in eager."""
    return target in _COPYING_TWIN or (target.namespace != "aten" and not target._schema.is_mutable)


def _make_output(ctx: Context, position: int | None, known: bool, strides_of: StridesOf | None) -> TensorView:
    """The buffer of a result; images lie as `strides_of` their shape, all else as at capture."""
    value, shape = ctx.result(position), ctx.result_shape(position)
    stride: Sequence[Size] = [as_size(step) for step in value.stride()]
    if strides_of is not None and (len(shape) == 4 or strides_of is contiguous_strides):
        stride = strides_of(shape)
    name = ctx.result_name(position)
    unread = ctx.unread_result(name, position)
    return ctx.make_buffer(name, value.dtype, shape, stride, layout_is_known=known, derived=unread)


def _layout_is_known(ctx: Context, target: torch._ops.OpOverload, args: tuple[Any, ...]) -> bool:
    """Whether the result is laid out as at capture, whichever backend runs and however our arguments lie."""
    value = ctx.node.meta["val"]
    if not isinstance(value, torch.Tensor) or not value.is_contiguous():
        return False
    if target in _CONTIGUOUS:
        return True
    if target is aten.matmul.default:
        # As mm or bmm, whatever the arguments' layout. Only a matrix times a batch is computed transposed.
        first, second = args
        return len(first.shape) >= len(second.shape)
    if target in _CONTIGUOUS_OF_CONTIGUOUS and not any(map(may_seem_last, ctx.node.all_input_nodes)):
        return all(_is_contiguous(ctx, arg) for arg in args if isinstance(arg, View))
    return False


def _is_contiguous_anyway(target: torch._ops.OpOverload, result: object) -> bool:
    """Whether a result is contiguous, whatever the arguments' layout: where its elements are in one line of its own."""
    if not isinstance(result, torch.Tensor) or not result.is_contiguous() or target.namespace != "aten":
        return False
    is_fresh = all(returned.alias_info is None for returned in target._schema.returns)
    return is_fresh and (result.dim() < 2 or target is aten.topk.default)


def _is_contiguous(ctx: Context, view: View) -> bool:
    expected: Size = 1
    for size, stride in zip(reversed(view.shape), reversed(view.stride), strict=True):
        if size != 1 and not same(stride, expected):
            return False
        expected = multiply(expected, size)
    return ctx.buffers[view.buffer].layout_is_known


def _mutated(target: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
    names = []
    for position, argument in enumerate(target._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = kwargs.get(argument.name, args[position] if position < len(args) else None)
        names += [
            item.buffer
            for item in (value if isinstance(value, tuple) else (value,))
            if isinstance(item, View)
        ]
    return tuple(names)


def _shares_memory(target: torch._ops.OpOverload) -> bool:
    return any(result.alias_info is not None for result in target._schema.returns)


def _detached(ctx: Context, view: TensorView) -> TensorView:
    """A copy with memory of its own, so that reusing the argument's memory later is safe."""
    buffer = ctx.buffers[view.buffer]
    copy = ctx.derive(
        Derivation.COPY, view.buffer, buffer.dtype, buffer.shape, buffer.stride, layout_is_known=False
    )
    ctx.call(aten.clone.default, (ctx.argument(view),), outputs=(copy.buffer,))
    return copy


def _reason(target: torch._ops.OpOverload, declined: str | None) -> str | None:
    if declined is not None:
        return declined
    if (which := differentiated(target)) is not None:
        return f"{which.target._schema.name} looks at data in its derivative: autograd runs it."
    namespace, _, name = target._schema.name.partition("::")
    if namespace != "aten":
        return f"{namespace}::{name} is a custom operator."
    if name in _BEST_IN_LIBRARY:
        return None
    if torch.Tag.nondeterministic_seeded in target.tags:
        return f"{name} draws eager's numbers from PyTorch's generator."
    return f"PyTorch's own: longhand writes no kernel for {name}."
