"""Products and convolutions: the library call of one becomes a `Contraction`, which says as loops what it computes.

Each dimension of an operand and of the result is given a letter; a letter that the result does not have is summed over.
What does not fit stays a plain call: whole numbers, layouts that are not known, transposed convolutions, sizes of 0,
and what is called for another reason than that a library does it best (products that the host computes for a GPU).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from longhand.lower.body import Index, Size
from longhand.lower.builder import BodyBuilder, Handle
from longhand.lower.ir import Axis, Buffer, Contraction, Extern, Reduce, Store, View
from longhand.lower.nest import Coordinate, combine
from longhand.lower.ops import ReduceOp
from longhand.lower.sizes import divide, multiply, same

aten = torch.ops.aten

_DTYPES = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_BATCH = "ABCDEFGH"  # letters of batch dimensions
_SPACE, _WINDOW = "xyz", "uvw"  # of an image's dimensions, and of what a convolution sees of them


def contraction_of(call: Extern, buffers: Mapping[str, Buffer]) -> Extern | Contraction:
    """The call as a contraction if it is one, else the call as it is."""
    describe = _DESCRIPTIONS.get(call.target)
    if describe is None or call.reason is not None or not _is_plain(call, buffers):
        return call
    product = _Product(call, buffers)
    given = dict(zip((argument.name for argument in call.target._schema.arguments), call.args, strict=False))
    return call if not describe(product, given | dict(call.kwargs)) else product.contraction() or call


def _is_plain(call: Extern, buffers: Mapping[str, Buffer]) -> bool:
    """Whether loops could read what the call reads and write what it makes: floats of one type, laid out as known."""
    if len(call.outputs) != 1 or not call.outputs[0]:
        return False
    touched = [buffers[name] for name in (call.outputs[0], *(view.buffer for view in call.views()))]
    shapes = [touched[0].shape, *(view.shape for view in call.views())]
    return (
        all(buffer.layout_is_known and buffer.dtype is touched[0].dtype for buffer in touched)
        and touched[0].dtype in _DTYPES
        and not any(same(size, 0) for shape in shapes for size in shape)
    )


class _Product:
    """The body of one contraction while it is written."""

    def __init__(self, call: Extern, buffers: Mapping[str, Buffer]) -> None:
        self.call = call
        self.result = buffers[call.outputs[0]]
        self.body = BodyBuilder(call.origin)
        self.sizes: dict[str, Size] = {}  # by letter, of the dimensions that are not 1

    def measure(self, letters: str, sizes: Sequence[Size]) -> None:
        """Learns how long dimensions are; a size of 1 is broadcast."""
        for letter, size in zip(letters, sizes, strict=True):
            if not same(size, 1):
                self.sizes.setdefault(letter, size)

    def at(self, letters: str, sizes: Sequence[Size]) -> list[Coordinate]:
        """The place along each dimension; in one of size 1 there is only one."""
        return [
            Coordinate() if same(size, 1) else Coordinate(((letter, 1),))
            for letter, size in zip(letters, sizes, strict=True)
        ]

    def load(self, view: View, places: Sequence[Coordinate], mask: Handle | None = None) -> Handle:
        """The element of an operand at a place."""
        return self.body.load(view.buffer, _index(view, places), self.result.dtype, mask)

    def operand(self, letters: str, view: View) -> Handle:
        """The element of an operand whose dimensions have these letters."""
        return self.body.load(view.buffer, _whole(letters, view), self.result.dtype)

    def total(self, left: Handle, right: Handle, letters: str) -> Handle:
        """The sum of the products over the letters."""
        over = [letter for letter in letters if letter in self.sizes]
        return self.body.reduce(ReduceOp.SUM, left * right, over)

    def store(self, letters: str, value: Handle) -> None:
        """Writes the result, whose dimensions have these letters."""
        whole = View(self.result.name, self.result.shape, self.result.stride)
        self.body.store(whole.buffer, _whole(letters, whole), value.to(self.result.dtype))

    def contraction(self) -> Contraction | None:
        """What was written; None if nothing is summed, or a factor is the same for all that is summed."""
        *values, stored = self.body.values
        assert isinstance(stored, Store)
        outer = [axis for axis in self.sizes if axis in dict(stored.index.axes)]
        inner = [axis for axis in self.sizes if axis not in outer]
        totals = [value for value in values if isinstance(value, Reduce)]
        if len(totals) != 1 or set(totals[0].axes) != set(inner):
            return None
        axes = tuple(Axis(letter, self.sizes[letter]) for letter in (*outer, *inner))
        return Contraction(axes, (*values, stored), self.call)


def _index(view: View, places: Sequence[Coordinate]) -> Index:
    terms = [place.times(stride) for place, stride in zip(places, view.stride, strict=True)]
    return combine([*terms, Coordinate(offset=view.offset)])


def _whole(letters: str, view: View) -> Index:
    """The place of the element at these letters, one for each dimension: `_index` of `_Product.at`."""
    steps = zip(letters, view.shape, view.stride, strict=True)
    return Index(
        view.offset,
        tuple(sorted((letter, step) for letter, size, step in steps if not same(size, 1) and step != 0)),
    )


def _product(product: _Product, result: str, left: str, one: View, right: str, other: View) -> Handle:
    """The sum of products of two operands over the letters that the result does not have."""
    product.measure(result, product.result.shape)
    product.measure(left, one.shape)
    product.measure(right, other.shape)
    over = "".join(letter for letter in left if letter not in result)
    return product.total(product.operand(left, one), product.operand(right, other), over)


def _plus(product: _Product, total: Handle, addend: View, letters: str, given: Mapping[str, Any]) -> Handle:
    """``beta * addend + alpha * total``; the addend is broadcast to the result, whose letters these are."""
    alpha, beta = given.get("alpha", 1), given.get("beta", 1)
    added = product.operand(letters[len(letters) - len(addend.shape) :], addend)
    return added * beta + total * alpha


def _matrices(left: str, right: str, result: str) -> Callable[[_Product, Mapping[str, Any]], bool]:
    """mm, bmm, mv, dot: products whose dimensions are always the same, of the first two tensors of the schema."""

    def describe(product: _Product, given: Mapping[str, Any]) -> bool:
        one, other = [value for value in given.values() if isinstance(value, View)]
        product.store(result, _product(product, result, left, one, right, other))
        return True

    return describe


def _added(left: str, right: str, result: str) -> Callable[[_Product, Mapping[str, Any]], bool]:
    """addmm, baddbmm, addmv: such a product with something added to it."""

    def describe(product: _Product, given: Mapping[str, Any]) -> bool:
        addend, one, other = [value for value in given.values() if isinstance(value, View)]
        if not isinstance(given.get("alpha", 1), int | float) or not isinstance(
            given.get("beta", 1), int | float
        ):
            return False
        if given.get("beta", 1) == 0:  # then NaN in what is added is not looked at
            return False
        total = _product(product, result, left, one, right, other)
        product.store(result, _plus(product, total, addend, result, given))
        return True

    return describe


def _linear(product: _Product, given: Mapping[str, Any]) -> bool:
    image, weight, bias = given["input"], given["weight"], given.get("bias")
    if len(weight.shape) != 2 or len(image.shape) > len(_BATCH):
        return False
    batch = _BATCH[: len(image.shape) - 1]
    total = _product(product, f"{batch}n", f"{batch}k", image, "nk", weight)
    product.store(f"{batch}n", total if bias is None else _plus(product, total, bias, f"{batch}n", {}))
    return True


def _matmul(product: _Product, given: Mapping[str, Any]) -> bool:
    one, other = given["self"], given["other"]
    ranks = len(one.shape), len(other.shape)
    if max(ranks) > len(_BATCH) or min(ranks) < 1:
        return False
    batch = _BATCH[: max(*ranks, 2) - 2]
    left = "k" if ranks[0] == 1 else f"{batch[len(batch) - ranks[0] + 2 :]}mk"
    right = "k" if ranks[1] == 1 else f"{batch[len(batch) - ranks[1] + 2 :]}kn"
    result = f"{batch}{'m' if ranks[0] > 1 else ''}{'n' if ranks[1] > 1 else ''}"
    product.store(result, _product(product, result, left, one, right, other))
    return True


def _convolution(product: _Product, given: Mapping[str, Any]) -> bool:
    image, weight, bias = given["input"], given["weight"], given.get("bias")
    n_space, groups = len(weight.shape) - 2, given.get("groups", 1)
    outwards = divide(product.result.shape[1], groups) if len(image.shape) == n_space + 2 else None
    if outwards is None or given.get("transposed", False) or n_space > len(_SPACE):
        return False
    space, window = _SPACE[:n_space], _WINDOW[:n_space]
    result = product.result.shape
    product.measure(f"bgn{space}", (result[0], groups, outwards, *result[2:]))
    product.measure(f"c{window}", weight.shape[1:])
    batch, group, out, channel = product.at("bgnc", (result[0], groups, outwards, weight.shape[1]))
    places, inside = _seen(product, image, weight, given)
    left = product.load(image, [batch, _sum(group.times(weight.shape[1]), channel), *places], inside)
    made = _sum(group.times(outwards), out)
    right = product.load(weight, [made, channel, *product.at(window, weight.shape[2:])])
    total = product.total(left, right, f"c{window}")
    if bias is not None:
        total = product.load(bias, [made]) + total
    whole = View(product.result.name, result, product.result.stride)
    index = _index(whole, [batch, made, *product.at(space, result[2:])])
    product.body.store(whole.buffer, index, total.to(product.result.dtype))
    return True


def _seen(
    product: _Product, image: View, weight: View, given: Mapping[str, Any]
) -> tuple[list[Coordinate], Handle | None]:
    """Where in the image an element of the window lies, and whether that is inside of it (None: always)."""
    sizes = image.shape[2:]
    outs = product.at(_SPACE[: len(sizes)], product.result.shape[2:])
    withins = product.at(_WINDOW[: len(sizes)], weight.shape[2:])
    strides, paddings, dilations = (
        _per_dim(given.get(name, usual), len(sizes))
        for name, usual in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    places = [
        _sum(out.times(stride), within.times(dilation)).plus(multiply(padding, -1))
        for out, stride, within, dilation, padding in zip(
            outs, strides, withins, dilations, paddings, strict=True
        )
    ]
    inside: Handle | None = None
    for place, size, padding in zip(places, sizes, paddings, strict=True):
        if not same(padding, 0):
            at = product.body.position(combine([place]))
            fits = (at >= 0) & (at < _number(product.body, size))
            inside = fits if inside is None else inside & fits
    return places, inside


def _per_dim(given: Any, n_dims: int) -> tuple[Size, ...]:
    """A window's numbers, one for each dimension of the image."""
    several = tuple(given) if isinstance(given, tuple | list) else (given,)
    return several * n_dims if len(several) == 1 else several


def _number(body: BodyBuilder, size: Size) -> Handle:
    return body.constant(size, torch.int64) if isinstance(size, int) else body.scalar(size, torch.int64)


def _sum(one: Coordinate, other: Coordinate) -> Coordinate:
    """The place that lies both steps away."""
    index = combine([one, other])
    return Coordinate(index.axes, index.offset)


_DESCRIPTIONS: dict[torch._ops.OpOverload, Callable[[_Product, Mapping[str, Any]], bool]] = {
    aten.mm.default: _matrices("mk", "kn", "mn"),
    aten.bmm.default: _matrices("bmk", "bkn", "bmn"),
    aten.mv.default: _matrices("mk", "k", "m"),
    aten.dot.default: _matrices("k", "k", ""),
    aten.addmm.default: _added("mk", "kn", "mn"),
    aten.baddbmm.default: _added("bmk", "bkn", "bmn"),
    aten.addmv.default: _added("mk", "k", "m"),
    aten.linear.default: _linear,
    aten.matmul.default: _matmul,
    aten.convolution.default: _convolution,
    aten.conv1d.default: _convolution,
    aten.conv2d.default: _convolution,
    aten.conv3d.default: _convolution,
}
