"""Max pooling that tells where in its window each result was found, and the gradient that goes back there.

PyTorch's op keeps the place of each largest element as its index in the whole image: 8 bytes a result. Within a small
window a place is a number of one byte, and the backward pass needs nothing else: an element knows which windows see
it, and at which of their places. So it takes the gradients of those that it has won, and none is added up in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["max_pool2d_backward_op", "max_pool2d_op"]

_NAMESPACE = "longhand_pooling"
aten = torch.ops.aten


@torch.library.custom_op(f"{_NAMESPACE}::max_pool2d", mutates_args=())
def _max_pool2d(
    x: torch.Tensor, size: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil_mode: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest elements, and their places in their windows, counted line by line."""
    largest, indices = aten.max_pool2d_with_indices(x, size, stride, padding, 1, ceil_mode)
    line, column = _first_places(indices, stride, padding)
    width = x.shape[-1]
    places = (indices // width - line) * size[1] + indices % width - column
    return largest, places.to(torch.int8)


@_max_pool2d.register_fake
def _(
    x: torch.Tensor, size: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil_mode: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    largest = aten.max_pool2d_with_indices(x, size, stride, padding, 1, ceil_mode)[0]
    return largest, torch.empty_like(largest, dtype=torch.int8)


@torch.library.custom_op(f"{_NAMESPACE}::max_pool2d_backward", mutates_args=())
def _max_pool2d_backward(
    d_out: torch.Tensor,
    places: torch.Tensor,
    image: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
) -> torch.Tensor:
    """The gradient of images of (height, width) `image`, each of whose elements sums those of the windows it won."""
    d_x = _like_gradient(d_out, image)
    line, column = _first_places(d_out, stride, padding)
    indices = (line + places // size[1]) * image[1] + column + places % size[1]
    sums = torch.zeros((*d_x.shape[:-2], image[0] * image[1]), dtype=d_out.dtype, device=d_out.device)
    sums.scatter_add_(-1, indices.flatten(-2), d_out.flatten(-2))
    return d_x.copy_(sums.view(d_x.shape))


@_max_pool2d_backward.register_fake
def _(
    d_out: torch.Tensor,
    places: torch.Tensor,
    image: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
) -> torch.Tensor:
    return _like_gradient(d_out, image)


def _first_places(
    results: torch.Tensor, stride: Sequence[int], padding: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The line and the column at which each result's window begins, of those in the padding less than 0."""
    line = torch.arange(results.shape[-2], device=results.device) * stride[0] - padding[0]
    column = torch.arange(results.shape[-1], device=results.device) * stride[1] - padding[1]
    return line[:, None], column


def _like_gradient(d_out: torch.Tensor, image: Sequence[int]) -> torch.Tensor:
    """A new gradient of the images, channels last where the given one is."""
    shape = (*d_out.shape[:-2], *image)
    if d_out.dim() == 4 and not d_out.is_contiguous():
        return d_out.new_empty(shape).to(memory_format=torch.channels_last)
    return d_out.new_empty(shape)


max_pool2d_op: torch._ops.OpOverload = getattr(torch.ops, _NAMESPACE).max_pool2d.default
max_pool2d_backward_op: torch._ops.OpOverload = getattr(torch.ops, _NAMESPACE).max_pool2d_backward.default
