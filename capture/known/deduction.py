"""From what is known of an ATen call's arguments to what is known of its result: one rule an op.

A rule is given the call and yields a fact, or None: nothing is known. Calls of elementwise ops on plain numbers are
simply computed, on tensors of one element.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture import torch_private
from longhand.capture.known.facts import (
    Affine,
    Choice,
    Fact,
    Position,
    Same,
    Size,
    choice,
    is_nonnegative,
    sum_of,
)

aten = torch.ops.aten
_INDEX_TYPES = (torch.int64, torch.int32)


@dataclasses.dataclass(frozen=True)
class Call:
    """One call and what is known of its arguments.

    Attributes:
        node: The call.
        facts: Of each node known so far.
    """

    node: fx.Node
    facts: dict[fx.Node, Fact]

    @property
    def shape(self) -> tuple[Size, ...]:
        """Of the result."""
        return shape_of(self.node)

    @property
    def dtype(self) -> torch.dtype:
        """Of the result."""
        return self.node.meta["val"].dtype

    def fact(self, position: int) -> Fact | None:
        """Of a tensor or number among the arguments."""
        given = self.node.args[position]
        if isinstance(given, fx.Node):
            return self.facts.get(given)
        return Same(given) if isinstance(given, bool | int | float) else None

    def size(self, position: int, default: Size | None = None) -> Size | None:
        """A whole number among the arguments, maybe a symbolic one."""
        if position >= len(self.node.args):
            return default
        given = self.node.args[position]
        return default if given is None else size_of(given)

    def source(self) -> tuple[Fact | None, tuple[Size, ...]]:
        """What is known of the first argument, and its shape."""
        given = self.node.args[0]
        assert isinstance(given, fx.Node)
        return self.facts.get(given), shape_of(given)


Rule = Callable[[Call], Fact | None]
_RULES: dict[Any, Rule] = {}


def fact_of(node: fx.Node, facts: dict[fx.Node, Fact]) -> Fact | None:
    """What is known of a call's result; `facts` holds what is known of the nodes before it."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or node.op != "call_function" or value.is_complex():
        return None
    rule = _RULES.get(node.target)
    call = Call(node, facts)
    fact = rule(call) if rule is not None else None
    return _narrowed(fact if fact is not None else _computed(call), call.shape)


def _narrowed(fact: Fact | None, shape: Sequence[Size]) -> Fact | None:
    """The fact without steps along dimensions of size 1, which broadcasting would walk along."""

    def narrow(function: Affine) -> Affine:
        steps = zip(function.steps, shape, strict=True)
        return Affine(function.offset, tuple(0 if size == 1 else step for step, size in steps))

    fact = _moved(fact, narrow)
    if isinstance(fact, Position) and not any(fact.value.steps):
        return _number(fact.value.offset)
    return fact


def shape_of(node: fx.Node) -> tuple[Size, ...]:
    """The sizes of a node's tensor."""
    sizes = (size_of(size) for size in node.meta["val"].shape)
    return tuple(size for size in sizes if size is not None)


def size_of(value: Any) -> Size | None:
    """A size as an int or an expression; None for what is no whole number."""
    value = value.meta.get("val") if isinstance(value, fx.Node) else value
    if isinstance(value, torch.SymInt):
        return torch_private.symbolic_expression(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _rule(*targets: Any) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(targets, rule))
        return rule

    return register


# -- out of nothing ------------------------------------------------------------------------------------------------


@_rule(aten.arange.default, aten.arange.start, aten.arange.start_step)
def _arange(call: Call) -> Fact | None:
    only = len(call.node.args) == 1
    start, step = (0 if only else call.size(0)), call.size(2, 1)
    if call.dtype not in _INDEX_TYPES or start is None or not isinstance(step, int):
        return None
    return Position(Affine(start, (step,)))


@_rule(aten.full.default, aten.full_like.default, aten.scalar_tensor.default, aten.new_full.default)
def _full(call: Call) -> Fact | None:
    position = {aten.scalar_tensor.default: 0, aten.new_full.default: 2}.get(call.node.target, 1)
    given = call.node.args[position]
    return _as(call.dtype, given) if isinstance(given, bool | int | float) else None


@_rule(aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default)
def _zeros(call: Call) -> Fact | None:
    return _as(call.dtype, 0)


@_rule(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def _ones(call: Call) -> Fact | None:
    return _as(call.dtype, 1)


def _as(dtype: torch.dtype, number: Any) -> Fact:
    return Same(torch.tensor(number, dtype=dtype).item())


# -- views ---------------------------------------------------------------------------------------------------------


def _moved(fact: Fact | None, move: Callable[[Affine], Affine]) -> Fact | None:
    """The fact with its functions moved to other indices."""
    if isinstance(fact, Position):
        return Position(move(fact.value))
    if isinstance(fact, Choice):
        return dataclasses.replace(fact, conditions=frozenset(move(c) for c in fact.conditions))
    return fact


def _again(fact: Fact | None, shape: Sequence[Size]) -> Fact | None:
    """The fact on a smaller shape, where its conditions may be decided."""
    return choice(fact.conditions, fact.inside, fact.outside, shape) if isinstance(fact, Choice) else fact


@_rule(aten.alias.default, aten.detach.default, aten.clone.default, aten.contiguous.default)
def _identity(call: Call) -> Fact | None:
    return call.fact(0)


@_rule(aten.unsqueeze.default)
def _unsqueeze(call: Call) -> Fact | None:
    dim = int(call.node.args[1]) % len(call.shape)  # type: ignore[arg-type]
    return _moved(call.fact(0), lambda f: Affine(f.offset, (*f.steps[:dim], 0, *f.steps[dim:])))


@_rule(aten.expand.default)
def _expand(call: Call) -> Fact | None:
    return _moved(call.fact(0), lambda f: f.aligned(len(call.shape)))


@_rule(aten.permute.default)
def _permute(call: Call) -> Fact | None:
    order = [int(dim) % len(call.shape) for dim in call.node.args[1]]  # type: ignore[union-attr,arg-type]
    return _moved(call.fact(0), lambda f: Affine(f.offset, tuple(f.steps[dim] for dim in order)))


@_rule(aten.transpose.int)
def _transpose(call: Call) -> Fact | None:
    order = list(range(len(call.shape)))
    first, second = (int(dim) % len(order) for dim in call.node.args[1:3])  # type: ignore[arg-type]
    order[first], order[second] = order[second], order[first]
    return _moved(call.fact(0), lambda f: Affine(f.offset, tuple(f.steps[dim] for dim in order)))


@_rule(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.reshape.default, aten.view.default)
def _reshape(call: Call) -> Fact | None:
    """Dimensions of size 1 come and go; nothing else."""
    fact, shape = call.source()
    if isinstance(fact, Same):
        return fact
    wide = [dim for dim, size in enumerate(shape) if size != 1]
    if [shape[dim] for dim in wide] != [size for size in call.shape if size != 1]:
        return None

    def move(function: Affine) -> Affine:
        steps = iter([function.steps[dim] for dim in wide])
        return Affine(function.offset, tuple(0 if size == 1 else next(steps) for size in call.shape))

    return _moved(fact, move)


@_rule(aten.select.int)
def _select(call: Call) -> Fact | None:
    fact, shape = call.source()
    dim, index = int(call.node.args[1]) % len(shape), call.size(2)  # type: ignore[arg-type]
    if not isinstance(index, int):
        return fact if isinstance(fact, Same) else None
    start = index if index >= 0 else shape[dim] + index

    def move(function: Affine) -> Affine:
        rest = (*function.steps[:dim], *function.steps[dim + 1 :])
        return Affine(function.plus(function.steps[dim] * start).offset, rest)

    return _again(_moved(fact, move), call.shape)


@_rule(aten.slice.Tensor)
def _slice(call: Call) -> Fact | None:
    fact, shape = call.source()
    dim = int(call.node.args[1]) % len(shape) if len(call.node.args) > 1 else 0  # type: ignore[arg-type]
    start, step = call.size(2, 0), call.size(4, 1)
    if isinstance(fact, Same):
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

    return _again(_moved(fact, move), call.shape)


@_rule(aten.cat.default)
def _cat(call: Call) -> Fact | None:
    """Pieces that continue one affine function."""
    pieces = call.node.args[0]
    dim = (int(call.node.args[1]) if len(call.node.args) > 1 else 0) % len(call.shape)  # type: ignore[arg-type]
    assert isinstance(pieces, list | tuple)
    functions: list[tuple[Affine, Size, Size]] = []  # each in the whole's indices, where it begins, its size
    begin: Size = 0
    for piece in pieces:
        assert isinstance(piece, fx.Node)
        fact, shape = call.facts.get(piece), shape_of(piece)
        function = _whole_number(fact, len(call.shape))
        if function is None or len(shape) != len(call.shape):
            return None
        functions.append((function.plus(-function.steps[dim] * begin), begin, shape[dim]))
        begin = begin + shape[dim]
    if call.dtype not in _INDEX_TYPES:
        return None
    whole = next((f for f, _, size in functions if size != 1), functions[0][0])
    if not all(_agree(whole, function, dim, start, size) for function, start, size in functions):
        return None
    return Position(whole) if any(whole.steps) else _number(whole.offset)


def _agree(whole: Affine, piece: Affine, dim: int, start: Size, size: Size) -> bool:
    """Whether two functions are equal on a piece; one that is 1 wide says nothing of the step along `dim`."""
    if size != 1:
        return whole == piece

    def at_start(function: Affine) -> Affine:
        steps = (*function.steps[:dim], 0, *function.steps[dim + 1 :])
        return Affine(function.plus(function.steps[dim] * start).offset, steps)

    return at_start(whole) == at_start(piece)


@_rule(aten.index.Tensor)
def _index(call: Call) -> Fact | None:
    fact, shape = call.source()
    positions = call.node.args[1]
    assert isinstance(positions, list | tuple)
    if fact is None or len(positions) != len(shape):
        return None
    rank = len(call.shape)
    functions = []
    for position, size in zip(positions, shape, strict=True):
        known = call.facts.get(position) if isinstance(position, fx.Node) else None
        function = _whole_number(known, rank)
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

    return _again(_moved(fact, move), call.shape)


def _whole_number(fact: Fact | None, rank: int) -> Affine | None:
    """A fact about whole numbers as an affine function."""
    if isinstance(fact, Position):
        return fact.value.aligned(rank)
    if isinstance(fact, Same) and isinstance(fact.number, int) and not isinstance(fact.number, bool):
        return Affine(fact.number, (0,) * rank)
    return None


def _number(value: Size) -> Fact | None:
    return Same(value) if isinstance(value, int) else None


# -- arithmetic and comparisons ------------------------------------------------------------------------------------


@_rule(aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor, aten.sub.Scalar, aten.rsub.Scalar)
def _add(call: Call) -> Fact | None:
    left, right = _two(call)
    if left is None or right is None or call.dtype not in _INDEX_TYPES or "alpha" in call.node.kwargs:
        return None
    if len(call.node.args) > 2:
        return None
    if call.node.target is aten.rsub.Scalar:
        left, right = right, left
    whole = sum_of(left, right if "add" in str(call.node.target) else -right)
    return Position(whole) if any(whole.steps) else _number(whole.offset)


@_rule(aten.mul.Tensor, aten.mul.Scalar)
def _mul(call: Call) -> Fact | None:
    facts = [call.fact(0), call.fact(1)]
    position = next((fact for fact in facts if isinstance(fact, Position)), None)
    factor = next((fact for fact in facts if isinstance(fact, Same)), None)
    if position is None or factor is None or call.dtype not in _INDEX_TYPES:
        return None
    if isinstance(factor.number, bool) or not isinstance(factor.number, int):
        return None
    whole = position.value.aligned(len(call.shape)).times(factor.number)
    return Position(whole) if any(whole.steps) else Same(0)


@_rule(aten.cumsum.default)
def _cumsum(call: Call) -> Fact | None:
    fact = call.fact(0)
    if not isinstance(fact, Same) or call.dtype not in _INDEX_TYPES or not call.shape:
        return None
    step, dim = int(fact.number), int(call.node.args[1]) % len(call.shape)  # type: ignore[arg-type]
    if step == 0:
        return Same(0)
    return Position(Affine(step, tuple(step if d == dim else 0 for d in range(len(call.shape)))))


def _two(call: Call) -> tuple[Affine | None, Affine | None]:
    rank = len(call.shape)
    left, right = (_whole_number(call.fact(position), rank) for position in (0, 1))
    for position in (0, 1):  # the bounds of positions hold in the tensor that they are of
        given = call.node.args[position]
        if isinstance(given, fx.Node) and given.meta["val"].dtype not in (*_INDEX_TYPES, torch.bool):
            return None, None
    return left, right


@_rule(aten.ge.Tensor, aten.ge.Scalar, aten.gt.Tensor, aten.gt.Scalar)
def _greater(call: Call) -> Fact | None:
    left, right = _two(call)
    if left is None or right is None:
        return None
    strict = 1 if "gt" in str(call.node.target) else 0
    return choice([sum_of(left, -right).plus(-strict)], True, False, call.shape)


@_rule(aten.le.Tensor, aten.le.Scalar, aten.lt.Tensor, aten.lt.Scalar)
def _less(call: Call) -> Fact | None:
    left, right = _two(call)
    if left is None or right is None:
        return None
    strict = 1 if "lt" in str(call.node.target) else 0
    return choice([sum_of(right, -left).plus(-strict)], True, False, call.shape)


@_rule(aten.eq.Tensor, aten.eq.Scalar, aten.ne.Tensor, aten.ne.Scalar)
def _equal(call: Call) -> Fact | None:
    left, right = _two(call)
    if left is None or right is None:
        return None
    apart = sum_of(left, -right)
    equal = choice([apart, -apart], True, False, call.shape)
    return equal if "eq" in str(call.node.target) else _not(equal)


@_rule(aten.bitwise_and.Tensor, aten.logical_and.default)
def _and(call: Call) -> Fact | None:
    facts = [call.fact(0), call.fact(1)]
    if call.dtype is not torch.bool:
        return None
    if any(isinstance(fact, Same) and fact.number is False for fact in facts):
        return Same(False)
    conditions: set[Affine] = set()
    for fact in facts:
        if isinstance(fact, Choice) and (fact.inside, fact.outside) == (True, False):
            conditions |= {condition.aligned(len(call.shape)) for condition in fact.conditions}
        elif not isinstance(fact, Same):
            return None
    return choice(conditions, True, False, call.shape)


@_rule(aten.bitwise_or.Tensor, aten.logical_or.default)
def _or(call: Call) -> Fact | None:
    facts = [call.fact(0), call.fact(1)]
    if call.dtype is not torch.bool:
        return None
    if any(isinstance(fact, Same) and fact.number is True for fact in facts):
        return Same(True)
    rest = [fact for fact in facts if not isinstance(fact, Same)]
    return _aligned(rest[0], call) if len(rest) == 1 else None


@_rule(aten.bitwise_not.default, aten.logical_not.default)
def _invert(call: Call) -> Fact | None:
    fact = call.fact(0)
    source = call.node.args[0]
    if fact is None or not isinstance(source, fx.Node) or source.meta["val"].dtype is not torch.bool:
        return None
    return _not(fact)


def _not(fact: Fact) -> Fact | None:
    if isinstance(fact, Same):
        return Same(not fact.number)
    if not isinstance(fact, Choice):
        return None
    if len(fact.conditions) == 1 and (fact.inside, fact.outside) == (True, False):
        (condition,) = fact.conditions
        return Choice(frozenset([(-condition).plus(-1)]), True, False)
    return Choice(fact.conditions, fact.outside, fact.inside)


def _aligned(fact: Fact | None, call: Call) -> Fact | None:
    return _moved(fact, lambda f: f.aligned(len(call.shape)))


# -- choices -------------------------------------------------------------------------------------------------------


@_rule(aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar)
def _where(call: Call) -> Fact | None:
    condition, then, otherwise = (call.fact(position) for position in range(3))
    if isinstance(condition, Same):
        return _aligned(then if condition.number else otherwise, call)
    if not isinstance(condition, Choice) or not isinstance(then, Same) or not isinstance(otherwise, Same):
        return None
    return _chosen(call, condition, lambda holds: then.number if holds else otherwise.number)


@_rule(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def _masked_fill(call: Call) -> Fact | None:
    base, condition, filling = (call.fact(position) for position in range(3))
    if isinstance(condition, Same):
        return _aligned(filling if condition.number else base, call)
    if not isinstance(condition, Choice) or not isinstance(base, Same) or not isinstance(filling, Same):
        return None
    return _chosen(call, condition, lambda holds: filling.number if holds else base.number)


@_rule(aten.triu.default, aten.tril.default)
def _triangle(call: Call) -> Fact | None:
    fact, diagonal = call.fact(0), call.size(1, 0)
    if not isinstance(fact, Same) or not isinstance(diagonal, int):
        return None
    above = Affine(-diagonal, (*(0 for _ in call.shape[2:]), -1, 1))
    kept = above if call.node.target is aten.triu.default else -above
    nothing = _as(call.dtype, 0)
    assert isinstance(nothing, Same)
    return choice([kept], fact.number, nothing.number, call.shape)


def _chosen(call: Call, condition: Choice, pick: Callable[[Any], Any]) -> Fact | None:
    inside, outside = (_as(call.dtype, pick(value)) for value in (condition.inside, condition.outside))
    assert isinstance(inside, Same) and isinstance(outside, Same)
    moved = _aligned(condition, call)
    assert isinstance(moved, Choice)
    return _two_numbers(moved, inside.number, outside.number)


def _two_numbers(source: Choice, inside: Any, outside: Any) -> Fact:
    if inside == outside and math.copysign(1, inside) == math.copysign(1, outside):
        return Same(inside)
    return Choice(source.conditions, inside, outside)


def _computed(call: Call) -> Fact | None:
    """An elementwise op on numbers: computed on tensors of one element, for each side of a choice."""
    target: Any = call.node.target
    is_elementwise = isinstance(target, torch._ops.OpOverload) and (
        torch.Tag.pointwise in target.tags or target is aten._to_copy.default
    )
    if not is_elementwise or torch.Tag.nondeterministic_seeded in target.tags:
        return None
    nodes = [leaf for leaf in pytree.tree_leaves((call.node.args, call.node.kwargs)) if isinstance(leaf, fx.Node)]
    facts = [call.facts.get(node) for node in nodes]
    if not nodes or not all(isinstance(fact, Same | Choice) for fact in facts):
        return None
    choices = [_aligned(fact, call) for fact in facts if isinstance(fact, Choice)]
    kinds = {fact.conditions for fact in choices if isinstance(fact, Choice)}
    if len(kinds) > 1:
        return None
    outside = _value(call, lambda fact: fact.outside if isinstance(fact, Choice) else fact.number)  # type: ignore[union-attr]
    inside = _value(call, lambda fact: fact.inside if isinstance(fact, Choice) else fact.number)  # type: ignore[union-attr]
    if inside is None or outside is None:
        return None
    first = choices[0] if choices else None
    return _two_numbers(first, inside, outside) if isinstance(first, Choice) else Same(inside)


def _value(call: Call, side: Callable[[Fact], Any]) -> Any:
    def number(leaf: Any) -> Any:
        if not isinstance(leaf, fx.Node):
            return leaf
        return torch.tensor(side(call.facts[leaf]), dtype=leaf.meta["val"].dtype)

    args, kwargs = fx.node.map_aggregate((call.node.args, dict(call.node.kwargs)), number)  # type: ignore[misc]
    kwargs = {key: value for key, value in kwargs.items() if key not in ("device", "layout", "pin_memory")}
    with torch_private.no_fake_mode():
        try:
            result = call.node.target(*args, **kwargs)  # type: ignore[operator]
        except (RuntimeError, TypeError, ZeroDivisionError):
            return None
    return result.item() if isinstance(result, torch.Tensor) and result.dtype == call.dtype else None
