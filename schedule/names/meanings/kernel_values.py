"""What a value of a kernel is to the formula that it stands in: a module's result, a denominator, a step run again.

Rules for names as those in schedule/names/value_rules.py: these come where an operation's own noun would say nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator, Sequence

import torch

from longhand.capture.graph import Role
from longhand.lower.ir import (
    Constant,
    IndexExpression,
    Load,
    Pointwise,
    PointwiseOp,
    Reduce,
    Scalar,
    Value,
    arguments,
)
from longhand.schedule.names.meanings.body_values import is_rotated, words_in_formula
from longhand.schedule.names.meanings.nameless import Nameless
from longhand.schedule.names.meanings.pairs import EVEN, IS_EVEN, ODD
from longhand.schedule.names.operation_names import has_weight, is_norm, op_word, provenance_of
from longhand.schedule.names.words import ordinals

_CLAMPS = frozenset({PointwiseOp.MINIMUM, PointwiseOp.MAXIMUM})
# What the whole of an operation makes whose formula has several steps: the last of them is no product.
_OF_WHOLE = {
    "gelu": "activated",
    "silu": "activated",
    "relu": "activated",
    "mish": "activated",
    "elu": "activated",
    "leaky_relu": "activated",
    "hardswish": "activated",
    "softplus": "softplus",
    "rms_norm": "normed",
    "normalize": "normalized",
    "layer_norm": "normed",
    "batch_norm": "normed",
    "group_norm": "normed",
    "cat": "joined",
    "pad": "padded",
    "dropout": "dropped",
    "hardsigmoid": "hardsigmoid",
}
_ACTIVATES = frozenset(op for op, word in _OF_WHOLE.items() if word == "activated")
_JOINTS = {
    PointwiseOp.ADD: "plus",
    PointwiseOp.SUB: "minus",
    PointwiseOp.MUL: "times",
    PointwiseOp.DIV: "over",
}
_SHORT = 12  # a side's word in a phrase of two


def same_step_again(one: Nameless) -> Iterator[str]:
    """``second_new_var``: what the user's statement makes that is run again, of a function that is called again."""
    role = getattr(one.value, "name", None)  # of a value that is stored with others, its own variable
    word = one.local or (role if role and role not in _ROLES else "")
    source = one.words.provenance(_origin(one.value))
    for position, other in one.names.items():
        if position in arguments(one.value):  # what a step adds to is its first part, and no step before
            continue
        before = one.words.provenance(_origin(one.plan.body[position]))
        is_same = (before.qualname, before.statement) == (source.qualname, source.statement)
        if other == word and source.statement and is_same:
            yield from itertools.islice(ordinals(word), _MOST)
            return


_MOST = 9
_ROLES = frozenset(Role)


def clamped(one: Nameless) -> Iterator[str]:
    """``clamped_dt``, of what a number bounds from one side or from both."""
    value, body = one.value, one.plan.body
    if not isinstance(value, Pointwise) or value.op not in _CLAMPS:
        return
    of = _bounded(value, one)
    inner = body[of] if of is not None else None
    if isinstance(inner, Pointwise) and inner.op in _CLAMPS and of not in one.names:
        below = _bounded(inner, one)
        of = below if below is not None else of
    if of is None:
        return
    word = one.operand(of) or _side(of, one)
    if word and len(word) <= _SHORT and not word.startswith("clamped"):
        yield f"clamped_{word}"
    yield "clamped"
    yield "clamped_again"


def _side(position: int, one: Nameless) -> str:
    """``row`` or ``col``, of a place along one axis of that side alone."""
    value = one.plan.body[position]
    if not isinstance(value, IndexExpression) or len(value.index.axes) != 1 or value.index.values:
        return ""
    ((axis, _),) = value.index.axes
    sides = {"row": one.plan.rows, "col": one.plan.cols}
    return next((word for word, axes in sides.items() if axis in {own.name for own in axes}), "")


def without_half_clamps(value: Value, body: Sequence[Value], names: Container[int]) -> list[int]:
    """What a value is made of; of a clamp what it bounds, in place of the half of it that is the inner one."""
    operands: list[int] = []
    for argument in arguments(value):
        inner = body[argument]
        is_half = (
            isinstance(value, Pointwise)
            and isinstance(inner, Pointwise)
            and {value.op, inner.op} == _CLAMPS
            and argument not in names
        )
        operands += arguments(inner) if is_half else [argument]
    return operands


def _bounded(value: Pointwise, one: Nameless) -> int | None:
    """What a minimum or maximum bounds, if the bound is one number for all elements; zero alone rectifies a float."""
    for of, limit in (value.args, value.args[::-1]):
        bound = one.plan.body[limit]
        is_zero = isinstance(bound, Constant) and bound.value == 0 and value.dtype.is_floating_point
        if (isinstance(bound, Constant | Scalar) and not is_zero) or _is_of_one_element(bound):
            return of
    return None


def _is_of_one_element(value: Value) -> bool:
    return isinstance(value, Load) and not (value.index.axes or value.index.values or value.mask)


def whole_operation(one: Nameless) -> Iterator[str]:
    """``activated``, ``normalized``: all that an operation of several steps makes."""
    value = one.value
    if not isinstance(value, Pointwise) or not _ends_operation(one):
        return
    if one.stored and not one.loads_have_lines:  # one element of what is stored, by that word
        return
    node = one.words.nodes.get(value.origin)
    if node is None or provenance_of(node).differentiates:
        return
    op = op_word(node).word
    word = _OF_WHOLE.get(op)
    if word is None:
        return
    word = "normalized" if word == "normed" and not has_weight(node) else word
    given = [one.operand(argument) for argument in _given(one, value.origin)]
    is_of_one = len(given) == 1 and given[0] and len(given[0]) <= _SHORT
    if word == op and is_of_one:
        yield f"{op}_{given[0]}"
    yield word
    if is_of_one:
        yield f"{word}_{given[0]}"


def _given(one: Nameless, origin: str) -> list[int]:
    """What the steps of an operation read that are no steps of it, numbers left out."""
    body = one.plan.body
    read = [
        argument
        for value in body[: one.position + 1]
        if _origin(value) == origin and not isinstance(value, Load)
        for argument in arguments(value)
    ]
    return [
        argument
        for argument in dict.fromkeys(read)
        if (_origin(body[argument]) != origin or isinstance(body[argument], Load))
        and not isinstance(body[argument], Constant | Scalar)
    ]


def _ends_operation(one: Nameless) -> bool:
    """Whether no later value comes of the same operation."""
    origin = _origin(one.value)
    later = one.plan.body[one.position + 1 :]
    return bool(origin) and not any(
        _origin(value) == origin for value in later if isinstance(value, Pointwise | Reduce)
    )


def half_of_rotation(one: Nameless) -> Iterator[str]:
    """``second_half``, of what stands negated in the first half of the result; ``first_half``, of what follows it."""
    body = one.plan.body
    for value in body:
        if not isinstance(value, Pointwise) or not is_rotated(value, one.plan):
            continue
        condition = getattr(body[value.args[0]], "name", None)
        if condition in (Role.IN_FIRST_HALF, IS_EVEN):
            words = (ODD, EVEN) if condition == IS_EVEN else (Role.SECOND_HALF, Role.FIRST_HALF)
            halves = {_without_sign(value.args[1], body): words[0]}
            halves[_without_sign(value.args[2], body)] = words[1]
            yield from [halves[one.position]] if one.position in halves else []


def _without_sign(position: int, body: Sequence[Value]) -> int:
    value = body[position]
    is_negated = isinstance(value, Pointwise) and value.op is PointwiseOp.NEG
    return arguments(value)[0] if is_negated else position


def times_rstd(one: Nameless) -> Iterator[str]:
    """``normalized``: what is multiplied by one over its root of squares."""
    value, body = one.value, one.plan.body
    if isinstance(value, Pointwise) and value.op is PointwiseOp.MUL and _is_forward(one):
        sides = [body[argument] for argument in value.args]
        if any(isinstance(side, Pointwise) and side.op is PointwiseOp.RSQRT for side in sides):
            yield "normalized"
            if one.place:
                yield f"{one.place}_normalized"


def result_of_module(one: Nameless) -> Iterator[str]:
    """``post_layer_norm``: what is read of a module outside of it alone, as model.py calls its result."""
    node = one.words.nodes.get(_origin(one.value))
    if node is None or not isinstance(one.value, Pointwise) or not _ends_operation(one):
        return
    module = provenance_of(node).module
    word = module.rpartition(".")[2]
    if not word or word.isdigit() or word != one.place or not _is_forward(one):
        return
    users = [user for user in node.users if user.op == "call_function"]
    outside = [f"{provenance_of(user).module}.".startswith(f"{module}.") for user in users]
    if users and not any(outside):
        yield word


def _is_forward(one: Nameless) -> bool:
    node = one.words.nodes.get(_origin(one.value))
    return node is not None and not provenance_of(node).differentiates


def part_of_quotient(one: Nameless) -> Iterator[str]:
    """``denominator``, of what everything that reads it divides by; ``numerator``."""
    users = _users(one)
    if not users or not _is_float(one.value) or any(user.op is not PointwiseOp.DIV for user in users):
        return
    if all(user.args[1] == one.position != user.args[0] for user in users):
        yield "denominator"
    elif len(users) == 1 and users[0].args[1] != one.position:
        yield "numerator"


_ARGUMENTS = {
    PointwiseOp.EXP: "exponent",
    PointwiseOp.SIN: "angle",
    PointwiseOp.COS: "angle",
    PointwiseOp.SIGMOID: "logit",
}


def argument_of_function(one: Nameless) -> Iterator[str]:
    """``exponent``, ``angle``, ``logit``, ``pre_activation``, ``pre_norm``: what one function alone is applied to."""
    users = _users(one)
    if not users or not _is_float(one.value):
        return
    nodes = [one.words.nodes.get(user.origin) for user in users]
    ops = {op_word(node).word for node in nodes if node is not None}
    own = _origin(one.value)
    if all(nodes) and len({user.origin for user in users}) == 1 and users[0].origin != own:
        if ops <= _ACTIVATES:
            yield "pre_activation"
        if all(is_norm(op) for op in ops):
            yield "pre_norm"
    words = {_ARGUMENTS.get(user.op, "") for user in users}
    if len(words) == 1:
        yield from words - {""}


def local_once_more(one: Nameless) -> Iterator[str]:
    """``new_x``: the user's word where it stands for something else."""
    if one.local and _ends_operation(one):
        yield from one.once_more(one.local)


def phrase_of_two(one: Nameless) -> Iterator[str]:
    """``x_plus_attn``, of two that have short words which are no phrases."""
    value = one.value
    if not isinstance(value, Pointwise) or value.op not in _JOINTS or value.args[0] == value.args[1]:
        return
    sides = [one.operand(argument) for argument in value.args]
    joints = {*_JOINTS.values()}
    if all(word and len(word) <= _SHORT and not joints & {*word.split("_")} for word in sides):
        yield f"_{_JOINTS[value.op]}_".join(word for word in sides if word)


_PART_OF = "_from_"  # ``d_x_from_q_proj``


def sum_of_parts(one: Nameless) -> Iterator[str]:
    """``d_x``, of all that a kernel reads of it: ``d_x_from_q_proj + d_x_from_k_proj``."""
    value = one.value
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.ADD:
        return
    stems = {_stem_of_sum(side, one) for side in value.args}
    users = (user for user in one.plan.body if isinstance(user, Pointwise) and one.position in user.args)
    is_all = not any(
        user.op is PointwiseOp.ADD and any(_stem_of_sum(side, one) in stems for side in user.args)
        for user in users
    )
    if len(stems) == 1 and is_all:
        yield from stems - {""}


def _stem_of_sum(position: int, one: Nameless) -> str:
    """What a value is a part of, or all parts of a sum are; empty where they are of several things, or of none."""
    value = one.plan.body[position]
    word = one.operand(position)
    if word is not None:
        stem, is_part, _ = word.partition(_PART_OF)
        return stem if is_part else ""
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.ADD:
        return ""
    stems = {_stem_of_sum(side, one) for side in value.args}
    return stems.pop() if len(stems) == 1 else ""


def biased_word(one: Nameless) -> Iterator[str]:
    """``biased``, of what a tensor is added to that is called a bias."""
    value, body = one.value, one.plan.body
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.ADD or not _is_forward(one):
        return
    for of, bias in (value.args, value.args[::-1]):
        load = body[bias]
        if isinstance(load, Load) and (one.operand(bias) or "").split("_")[-1] == "bias":
            yield "biased"
            if word := one.operand(of):
                yield f"biased_{word}"


def one_more(one: Nameless) -> Iterator[str]:
    """``erf_plus_one``, of a function that has no line of its own."""
    value, body = one.value, one.plan.body
    if not isinstance(value, Pointwise) or value.op is not PointwiseOp.ADD:
        return
    for of, number in (value.args, value.args[::-1]):
        inner, added = body[of], body[number]
        is_function = isinstance(inner, Pointwise) and inner.op in _FUNCTIONS and of not in one.names
        if is_function and isinstance(added, Constant) and added.value == 1:
            yield f"{inner.op.value}_plus_one"  # type: ignore[union-attr]


_FUNCTIONS = frozenset(
    {PointwiseOp.ERF, PointwiseOp.EXP, PointwiseOp.TANH, PointwiseOp.LOG, PointwiseOp.COS, PointwiseOp.SIN}
)


def in_formula(one: Nameless) -> Iterator[str]:
    """``centered``, ``weighted``, ``scores``, and the same with the module's word."""
    named = [one.names.get(argument) for argument in arguments(one.value)]
    for word in words_in_formula(one.position, one.plan):
        if word in named:  # what it is made of has a line of its own
            continue
        yield word
        if one.place:
            yield f"{one.place}_{word}"


def _users(one: Nameless) -> list[Pointwise]:
    """The operations that read a value; none where anything else reads it, too."""
    users = [value for value in one.plan.body if one.position in arguments(value)]
    operations = [value for value in users if isinstance(value, Pointwise)]
    return operations if len(operations) == len(users) else []


def _is_float(value: Value) -> bool:
    dtype = getattr(value, "dtype", None)
    return isinstance(dtype, torch.dtype) and dtype.is_floating_point


def _origin(value: Value) -> str:
    origin = getattr(value, "origin", "")
    return origin if isinstance(origin, str) else ""
