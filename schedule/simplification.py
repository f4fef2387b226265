"""Less of the same: dead values, equal values, constants, identities that are exact in IEEE arithmetic; steps alike."""

from __future__ import annotations

import dataclasses
import functools
import math

import torch

from longhand.capture.graph import Role
from longhand.lower.ir import (
    PRIMITIVES,
    AxisSize,
    Constant,
    IndexExpression,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Scalar,
    Store,
    Value,
    arguments,
)
from longhand.schedule.bodies import rewrite
from longhand.schedule.constant_axes import without_constant_axes
from longhand.schedule.known_choices import without_known_choices
from longhand.schedule.numerics.positive_factors import without_multiplied_zeros
from longhand.schedule.numerics.undone_means import without_undone_means
from longhand.schedule.numerics.zero_signs import without_added_zeros
from longhand.schedule.sizes import product

_EXACT_WIDENINGS = {
    (torch.float32, torch.float64),
    (torch.int32, torch.int64),
    (torch.int32, torch.float64),
    (torch.bool, torch.int32),
    (torch.bool, torch.int64),
    (torch.bool, torch.float32),
    (torch.bool, torch.float64),
}
_NO_MEANING = frozenset({"name", "origin"})  # the fields of a value that tell no two apart


def simplify_nest(nest: Nest) -> Nest:
    """The nest with its body cleaned and axes that nothing uses left out."""
    body = simplify_body(nest.body)
    sizes = {axis.name: axis.size for axis in nest.axes}
    for simplify in (
        without_constant_axes,
        without_known_choices,
        functools.partial(without_multiplied_zeros, sizes=sizes),
        without_added_zeros,
    ):
        simpler = simplify(body)
        body = body if simpler is body else simplify_body(simpler)
    used: set[str] = set()
    for value in body:
        if isinstance(value, Store) and value.adds:  # as often as there are iterations
            return Nest(nest.axes, body)
        if isinstance(value, Reduce):
            used.update(value.axes)
        elif isinstance(value, Load | Store | IndexExpression):
            used.update(axis for axis, _ in value.index.axes)
    # A sum over a broadcast axis is a product with the axis's size: the number stays, the loop goes.
    body = tuple(
        (
            Scalar(product(sizes[axis] for axis in value.axes), value.dtype, value.name, value.origin)
            if isinstance(value, AxisSize) and not used.issuperset(value.axes)
            else value
        )
        for value in body
    )
    whole = without_undone_means(body)
    if whole is not body:
        body = simplify_body(whole)
    return Nest(tuple(axis for axis in nest.axes if axis.name in used), body)


def simplify_body(body: tuple[Value, ...]) -> tuple[Value, ...]:
    """An equal body in canonical order: values in the order in which the stores need them, then the stores.

    Loads of a buffer that the body also stores stay before the store: a body never reads what it has written.
    """
    shared, positions = _common_values(body)
    roots = [positions[position] for position, value in enumerate(body) if isinstance(value, Store)]
    order: list[int] = []
    seen: set[int] = set()
    for root in roots:
        _visit(root, shared, order, seen)
    order = [position for position in order if not isinstance(shared[position], Store)] + roots
    place = {position: number for number, position in enumerate(order)}
    return tuple(rewrite(shared[position], place) for position in order)


def value_key(value: Value) -> tuple[object, ...]:
    """What makes two values of one body equal: all but their names and origins, 0.0 and -0.0 and False told apart.

    Two sides of an image that happen to be equally long are two numbers, and so are eps and a momentum.
    """
    if not isinstance(value, Constant | Load | Scalar):
        return (type(value), *(part for field, part in vars(value).items() if field not in _NO_MEANING))
    plain = dataclasses.replace(value, name=None, origin="")  # whose NaN equals itself
    if isinstance(value, Constant):
        return (plain, type(value.value).__name__, math.copysign(1.0, value.value), str(value.value))
    if isinstance(value, Load):
        return (plain, type(value.other).__name__, math.copysign(1.0, value.other), str(value.other))
    return (plain, value.name if isinstance(value.name, Role) and value.name.stays_apart else None)


def _visit(root: int, body: list[Value], order: list[int], seen: set[int]) -> None:
    """Appends what `root` needs, then `root`, without recursion: bodies can be deep."""
    stack = [(root, False)]
    while stack:
        position, expanded = stack.pop()
        if expanded:
            order.append(position)
        elif position not in seen:
            seen.add(position)
            stack.append((position, True))
            stack += [(arg, False) for arg in reversed(arguments(body[position])) if arg not in seen]


def _common_values(body: tuple[Value, ...]) -> tuple[list[Value], list[int]]:
    """The body with equal values once and identities applied, and the new position of each old value."""
    result: list[Value] = []
    known: dict[tuple[object, ...], int] = {}
    positions: list[int] = []
    for value in body:
        moved = rewrite(value, positions)
        simplified = _simplify(moved, result)
        if isinstance(simplified, int):
            positions.append(simplified)
            _name(result, simplified, value)
            continue
        if isinstance(simplified, Store):
            positions.append(len(result))
            result.append(simplified)
            continue
        key = value_key(simplified)
        position = known.setdefault(key, len(result))
        if position == len(result):
            result.append(simplified)
        else:
            _name(result, position, value)
        positions.append(position)
    return result, positions


def _name(body: list[Value], position: int, like: Value) -> None:
    """Gives a value the name of its equal, if it has none."""
    if body[position].name is None and like.name is not None and not isinstance(body[position], Constant):
        body[position] = dataclasses.replace(body[position], name=like.name)


def _simplify(value: Value, body: list[Value]) -> Value | int:
    """An equal, simpler value, or the position of an equal one."""
    if isinstance(value, Reduce) and not value.axes:
        return value.arg if value.op not in (ReduceOp.ARGMAX, ReduceOp.ARGMIN) else value
    if isinstance(value, Load) and value.mask is not None:
        mask = body[value.mask]
        if isinstance(mask, Constant):
            if not mask.value:
                return Constant(value.other, value.dtype, origin=value.origin)
            value = dataclasses.replace(value, mask=None, other=0)
    if isinstance(value, Load):
        return _at_known_places(value, body)
    if isinstance(value, IndexExpression) and not value.index.axes and not value.index.values:
        # Not a symbolic size, which only the caller knows.
        if isinstance(value.index.offset, int):
            return Constant(value.index.offset, value.dtype, origin=value.origin)
        return value
    if not isinstance(value, Pointwise):
        return value
    args = [body[position] for position in value.args]
    if PRIMITIVES[value.op].folds and all(isinstance(arg, Constant) for arg in args):
        return _fold(value, [arg for arg in args if isinstance(arg, Constant)])
    if value.op is PointwiseOp.CAST:
        return _simplify_cast(value, args[0], body)
    if value.op is PointwiseOp.DIV and value.args[0] == value.args[1] and _is_one_or_nan(args[0], body):
        return value.args[0]
    return _identity(value, args)


def _is_one_or_nan(value: Value, body: list[Value]) -> bool:
    """Whether a value is ``exp(x - x)``, as of a softmax over one element: NaN where x is infinite or NaN, else 1."""
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.EXP:
        return False
    inner = body[value.args[0]]
    is_difference = isinstance(inner, Pointwise) and inner.op is PointwiseOp.SUB
    return is_difference and len({*arguments(inner)}) == 1


def _at_known_places(load: Load, body: list[Value]) -> Load:
    """A gather whose positions are numbers by now reads where they say."""
    offset, gathered = load.index.offset, []
    for position, step in load.index.values:
        place = body[position]
        if isinstance(place, Constant):
            offset += int(place.value) * step
        else:
            gathered.append((position, step))
    if len(gathered) == len(load.index.values):
        return load
    return dataclasses.replace(
        load, index=dataclasses.replace(load.index, offset=offset, values=tuple(gathered))
    )


def _fold(value: Pointwise, args: list[Constant]) -> Value:
    """The operation done by torch in the very dtype."""
    operands = [torch.tensor(arg.value, dtype=arg.dtype) for arg in args]
    if any(operand.dtype is not operands[0].dtype for operand in operands):
        return value
    result = PRIMITIVES[value.op].in_torch(*operands)
    if result.dtype is not value.dtype:
        return value
    return Constant(result.item(), value.dtype, name=value.name, origin=value.origin)


def _simplify_cast(value: Pointwise, arg: Value, body: list[Value]) -> Value | int:
    if isinstance(arg, Constant) and (value.narrow is None or value.narrow.is_floating_point):
        number = torch.tensor(arg.value, dtype=arg.dtype).to(value.narrow or value.dtype).item()
        return Constant(number, value.dtype, origin=value.origin)
    if isinstance(arg, Store):
        return value
    if value.narrow is None and arg.dtype is value.dtype:
        return value.args[0]
    if (
        value.narrow is None
        and isinstance(arg, Pointwise)
        and arg.op is PointwiseOp.CAST
        and arg.narrow is None
    ):
        inner = body[arg.args[0]]
        there_and_back = not isinstance(inner, Store) and inner.dtype is value.dtype
        if there_and_back and (value.dtype, arg.dtype) in _EXACT_WIDENINGS:
            return arg.args[0]
    return value


def _identity(value: Pointwise, args: list[Value]) -> Value | int:
    """Identities that hold for every value, NaN, infinities and both zeros included."""
    first, last = value.args[0], value.args[-1]
    match value.op:
        case PointwiseOp.MUL:
            if _is(args[1], 1):
                return first
            if _is(args[0], 1):
                return last
        case PointwiseOp.DIV if _is(args[1], 1):
            return first
        case PointwiseOp.ADD:
            # x + (+0.0) turns -0.0 into +0.0, so only -0.0 (and the zero of integers) is neutral.
            if _is_zero(args[1], negative=True):
                return first
            if _is_zero(args[0], negative=True):
                return last
        case PointwiseOp.SUB if _is_zero(args[1], negative=False):
            return first
        case PointwiseOp.LOGICAL_AND:
            if _is(args[1], 1):
                return first
            if _is(args[0], 1):
                return last
        case PointwiseOp.LOGICAL_OR:
            if _is_zero(args[1], negative=False):
                return first
            if _is_zero(args[0], negative=False):
                return last
        case PointwiseOp.NEG | PointwiseOp.LOGICAL_NOT:
            inner = args[0]
            if isinstance(inner, Pointwise) and inner.op is value.op:
                return inner.args[0]
        case PointwiseOp.EXP if _is(args[0], 0):
            return Constant(1.0, value.dtype, origin=value.origin)
        case PointwiseOp.LOG if _is(args[0], 1):
            return Constant(0.0, value.dtype, origin=value.origin)
        case PointwiseOp.WHERE:
            if isinstance(args[0], Constant):
                return value.args[1] if args[0].value else value.args[2]
            if value.args[1] == value.args[2]:
                return value.args[1]
            if value.dtype is torch.bool and _is(args[1], 1) and _is(args[2], 0):
                return first
            if value.dtype is torch.bool and _is(args[1], 0) and _is(args[2], 1):
                return dataclasses.replace(value, op=PointwiseOp.LOGICAL_NOT, args=(first,))
    return value


def _is(value: Value, number: int) -> bool:
    return isinstance(value, Constant) and value.value == number


def _is_zero(value: Value, negative: bool) -> bool:
    """Whether a constant is the zero of that sign; integers and bools have one zero."""
    if not isinstance(value, Constant) or value.value != 0:
        return False
    return not value.dtype.is_floating_point or (math.copysign(1.0, value.value) < 0) is negative
