"""What is known of views: the same functions of other indices."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from longhand.capture.known.call import (
    INDEX_TYPES,
    KnownCall,
    functions_of,
    moved,
    number_of,
    rule_for,
    shape_of,
    whole_number,
)
from longhand.capture.known.facts import (
    Affine,
    AffineValue,
    Fact,
    Piecewise,
    SameNumber,
    Size,
    choice,
    is_nonnegative,
    sum_of,
)

aten = torch.ops.aten


def _again(fact: Fact | None, shape: Sequence[Size]) -> Fact | None:
    """The fact on a smaller shape, where its conditions may be decided."""
    return choice(fact.conditions, fact.inside, fact.outside, shape) if isinstance(fact, Piecewise) else fact


@rule_for(aten.alias.default, aten.detach.default, aten.clone.default, aten.contiguous.default)
def _identity(call: KnownCall) -> Fact | None:
    return call.fact(0)


@rule_for(aten.unsqueeze.default)
def _unsqueeze(call: KnownCall) -> Fact | None:
    dim = int(call.node.args[1]) % len(call.shape)  # type: ignore[arg-type]
    return moved(call.fact(0), lambda f: Affine(f.offset, (*f.steps[:dim], 0, *f.steps[dim:])))


@rule_for(aten.expand.default)
def _expand(call: KnownCall) -> Fact | None:
    return moved(call.fact(0), lambda f: f.aligned(len(call.shape)))


@rule_for(aten.repeat.default)
def _repeat(call: KnownCall) -> Fact | None:
    """Only along dimensions that it does not vary along: elsewhere it begins anew."""
    fact, shape = call.source()
    counts = list(call.node.args[1])  # type: ignore[arg-type]
    varying = {dim for function in functions_of(fact) for dim, step in enumerate(function.steps) if step}
    if any(counts[dim - len(shape)] != 1 for dim in varying):
        return None
    return moved(fact, lambda f: f.aligned(len(call.shape)))


@rule_for(aten.permute.default)
def _permute(call: KnownCall) -> Fact | None:
    order = [int(dim) % len(call.shape) for dim in call.node.args[1]]  # type: ignore[union-attr,arg-type]
    return moved(call.fact(0), lambda f: Affine(f.offset, tuple(f.steps[dim] for dim in order)))


@rule_for(aten.transpose.int)
def _transpose(call: KnownCall) -> Fact | None:
    order = list(range(len(call.shape)))
    first, second = (int(dim) % len(order) for dim in call.node.args[1:3])  # type: ignore[arg-type]
    order[first], order[second] = order[second], order[first]
    return moved(call.fact(0), lambda f: Affine(f.offset, tuple(f.steps[dim] for dim in order)))


@rule_for(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.reshape.default, aten.view.default)
def _reshape(call: KnownCall) -> Fact | None:
    """Dimensions of size 1 come and go; nothing else."""
    fact, shape = call.source()
    if isinstance(fact, SameNumber):
        return fact
    wide = [dim for dim, size in enumerate(shape) if size != 1]
    if [shape[dim] for dim in wide] != [size for size in call.shape if size != 1]:
        return None

    def move(function: Affine) -> Affine:
        steps = iter([function.steps[dim] for dim in wide])
        return Affine(function.offset, tuple(0 if size == 1 else next(steps) for size in call.shape))

    return moved(fact, move)


@rule_for(aten.select.int)
def _select(call: KnownCall) -> Fact | None:
    fact, shape = call.source()
    dim, index = int(call.node.args[1]) % len(shape), call.size(2)  # type: ignore[arg-type]
    if not isinstance(index, int):
        return fact if isinstance(fact, SameNumber) else None
    start = index if index >= 0 else shape[dim] + index

    def move(function: Affine) -> Affine:
        rest = (*function.steps[:dim], *function.steps[dim + 1 :])
        return Affine(function.plus(function.steps[dim] * start).offset, rest)

    return _again(moved(fact, move), call.shape)


@rule_for(aten.slice.Tensor)
def _slice(call: KnownCall) -> Fact | None:
    fact, shape = call.source()
    dim = int(call.node.args[1]) % len(shape) if len(call.node.args) > 1 else 0  # type: ignore[arg-type]
    start, step = call.size(2, 0), call.size(4, 1)
    if isinstance(fact, SameNumber):
        return fact
    if not isinstance(start, int) or not isinstance(step, int):
        return None
    if start < 0:  # from the end, but not beyond the beginning
        if not is_nonnegative(shape[dim] + start):
            return None
        first: Size = shape[dim] + start
    else:
        first = start

    def move(function: Affine) -> Affine:
        steps = (*function.steps[:dim], function.steps[dim] * step, *function.steps[dim + 1 :])
        return Affine(function.plus(function.steps[dim] * first).offset, steps)

    return _again(moved(fact, move), call.shape)


@rule_for(aten.cat.default)
def _cat(call: KnownCall) -> Fact | None:
    """Pieces that continue one affine function."""
    pieces = call.node.args[0]
    dim = (int(call.node.args[1]) if len(call.node.args) > 1 else 0) % len(call.shape)  # type: ignore[arg-type]
    assert isinstance(pieces, list | tuple)
    functions: list[tuple[Affine, Size, Size]] = []  # each in the whole's indices, where it begins, its size
    begin: Size = 0
    for piece in pieces:
        assert isinstance(piece, fx.Node)
        fact, shape = call.facts.get(piece), shape_of(piece)
        function = whole_number(fact, len(call.shape))
        if function is None or len(shape) != len(call.shape):
            return None
        functions.append((function.plus(-function.steps[dim] * begin), begin, shape[dim]))
        begin = begin + shape[dim]
    if call.dtype not in INDEX_TYPES:
        return None
    whole = next((f for f, _, size in functions if size != 1), functions[0][0])
    if not all(_agree(whole, function, dim, start, size) for function, start, size in functions):
        return None
    return AffineValue(whole) if any(whole.steps) else number_of(whole.offset)


def _agree(whole: Affine, piece: Affine, dim: int, start: Size, size: Size) -> bool:
    """Whether two functions are equal on a piece; one that is 1 wide says nothing of the step along `dim`."""
    if size != 1:
        return whole == piece

    def at_start(function: Affine) -> Affine:
        steps = (*function.steps[:dim], 0, *function.steps[dim + 1 :])
        return Affine(function.plus(function.steps[dim] * start).offset, steps)

    return at_start(whole) == at_start(piece)


@rule_for(aten.index.Tensor)
def _index(call: KnownCall) -> Fact | None:
    fact, shape = call.source()
    positions = call.node.args[1]
    assert isinstance(positions, list | tuple)
    if fact is None or len(positions) != len(shape):
        return None
    rank = len(call.shape)
    functions = []
    for position, size in zip(positions, shape, strict=True):
        known = call.facts.get(position) if isinstance(position, fx.Node) else None
        function = whole_number(known, rank)
        if function is None or not isinstance(position, fx.Node):
            return None
        if not is_nonnegative(function.least(call.shape)):
            return None
        if not is_nonnegative(size - 1 - function.greatest(call.shape)):
            return None
        functions.append(function)

    def move(function: Affine) -> Affine:
        moved = Affine(function.offset, (0,) * rank)
        for step, inner in zip(function.steps, functions, strict=True):
            moved = sum_of(moved, inner.times(step))
        return moved

    return _again(moved(fact, move), call.shape)
