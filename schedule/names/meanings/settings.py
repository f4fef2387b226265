"""What the user calls a number that a statement takes from its module or its function: ``LOGIT_SCALE`` for
``logits * self.logit_scale``, ``NUM_TOP_K`` for ``perm // num_top_k``."""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Iterator, Mapping

from torch import fx

from longhand.lower.ir import Constant, Pointwise, PointwiseOp, Scalar, Value
from longhand.schedule.names.shared.callers import Callers
from longhand.schedule.names.words import is_macro, is_word

_OPERATORS: dict[PointwiseOp, type[ast.operator]] = {
    PointwiseOp.MUL: ast.Mult,
    PointwiseOp.DIV: ast.Div,
    PointwiseOp.ADD: ast.Add,
    PointwiseOp.SUB: ast.Sub,
    PointwiseOp.FLOOR_DIV: ast.FloorDiv,
    PointwiseOp.TRUNC_DIV: ast.FloorDiv,
}
_BOUNDS = {PointwiseOp.MAXIMUM: "min", PointwiseOp.MINIMUM: "max"}
_LONGEST = 32
_NAMELESS = 1  # letters: ``N`` says nothing at the top of a file
SMALL = "EPS"
_LARGEST_EPS = 1e-3


def setting_word(number: Constant, user: Pointwise, callers: Callers) -> str:
    """The word for a number that an operation of a kernel takes, if all its calls have one statement for that.

    Empty where the statement has no name for it, or where several things of it might be meant.
    """
    words = callers.first.words
    node = words.nodes.get(user.origin)
    if node is None or not any(_is_number(one, number.value) for one in (*node.args, *node.kwargs.values())):
        return ""
    origin = words.provenance(user.origin)
    statement = origin.statement
    if origin.differentiates and origin.differentiated != user.op.value:
        return ""  # it is the derivative's own, as -0.5 of a square root's
    is_of_all = all(
        any(caller.words.provenance(origin).statement == statement for origin in caller.launch.origins)
        for caller in callers.every
    )
    if not statement or not is_of_all:
        return ""
    tensors = frozenset(words.provenance(one.name).local or one.name for one in node.all_input_nodes)
    # What is computed is no attribute: of a name and an attribute the attribute is the number.
    is_computed = all(one.op == "call_function" for one in node.all_input_nodes)
    given = [words.inputs[one.name].target for one in node.all_input_nodes if one.name in words.inputs]
    held = frozenset(path.rpartition(".")[2] for path in given)
    return _word_in(statement, user.op, float(number.value), _Tensors(tensors, held, is_computed))


@dataclasses.dataclass(frozen=True)
class _Tensors:
    """What an operation is given besides the number.

    Attributes:
        words: Variables.
        held: What the module calls those that it holds: ``gamma``.
        are_computed: Whether no tensor is the module's own, or the call's.
    """

    words: frozenset[str]
    held: frozenset[str]
    are_computed: bool

    def has(self, side: ast.expr) -> bool:
        """Whether a name or an attribute is one of them."""
        if isinstance(side, ast.Attribute):
            return side.attr in self.held
        return isinstance(side, ast.Name) and side.id in self.words


def is_small(number: Constant, users: list[Pointwise]) -> bool:
    """Whether a number only keeps a sum, or what is divided by, away from zero."""
    is_added = all(user.op in (PointwiseOp.ADD, PointwiseOp.MAXIMUM) for user in users)
    return number.dtype.is_floating_point and bool(users) and is_added and 0 < number.value <= _LARGEST_EPS


def numbers_of(body: tuple[Value, ...], words: Mapping[int, str]) -> dict[tuple[str, float], str]:
    """By an operation's node and the number that it is given: the word for that.

    Args:
        body: A kernel's.
        words: Of its constants and of the numbers that it is given, by position.
    """
    return {
        (value.origin, float(number.value)): words[at]
        for value in body
        if isinstance(value, Pointwise)
        for at in value.args
        if at in words and isinstance(number := body[at], Constant | Scalar)
        if isinstance(number.value, int | float)
    }


def _is_number(argument: object, value: float) -> bool:
    is_plain = isinstance(argument, int | float) and not isinstance(argument, bool)
    return is_plain and not isinstance(argument, fx.Node) and argument == value


@functools.lru_cache(maxsize=4096)
def _word_in(statement: str, op: PointwiseOp, value: float, tensors: _Tensors) -> str:
    try:
        tree = ast.parse(statement)
    except SyntaxError:  # the head of a compound statement
        return ""
    if any(isinstance(one, ast.Constant) and _is_number(one.value, abs(value)) for one in ast.walk(tree)):
        return ""
    given: list[ast.expr | None] = [*_bounds(tree, _BOUNDS[op])] if op in _BOUNDS else []
    given += [_number_of(sides, tensors) for sides in _sides(tree, _OPERATORS.get(op))]
    return _word(given[0]) if len(given) == 1 and given[0] is not None else ""


def _sides(tree: ast.AST, kind: type[ast.operator] | None) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The sides of each operation of a kind."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and kind is not None and isinstance(node.op, kind):
            yield node.left, node.right
        if isinstance(node, ast.AugAssign) and kind is not None and isinstance(node.op, kind):
            yield node.target, node.value


def _number_of(sides: tuple[ast.expr, ast.expr], tensors: _Tensors) -> ast.expr | None:
    """The side that is the number; None where nothing tells which it is."""
    whole = [*map(_converted, sides)]
    if any(map(_is_computed_number, whole)):  # then the other side is the tensor: math.sqrt(self.head_dim)
        return None
    named = [one for one in whole if isinstance(one, ast.Attribute | ast.Name)]
    plain = [one for one in named if not tensors.has(one)]
    attributes = [one for one in plain if isinstance(one, ast.Attribute)]
    chosen = attributes if len(plain) > 1 and tensors.are_computed else plain
    return chosen[0] if len(chosen) == 1 else None


def _is_computed_number(side: ast.expr) -> bool:
    """Whether a side is computed of numbers as it shows: ``math.sqrt(self.head_dim)``, ``self.head_dim**-0.5``."""
    match side:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math")) | ast.Name(id="len" | "sqrt")):
            return True
        case ast.BinOp(left, ast.Pow(), right):
            is_root = isinstance(right, ast.UnaryOp) or getattr(right, "value", 1) == 0.5
            return is_root and isinstance(left, ast.Name | ast.Attribute)
        case ast.BinOp(left, _, right):
            return any(map(_is_computed_number, (left, right)))
    return False


def _converted(side: ast.expr) -> ast.expr:
    """What stands between the brackets of ``float(self.unit_offset)``."""
    match side:
        case ast.Call(func=ast.Name(id="float" | "int"), args=[inner], keywords=[]):
            return inner
    return side


def _bounds(tree: ast.AST, keyword: str) -> Iterator[ast.expr]:
    """What clamps of a statement are given as one of their bounds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from (one.value for one in node.keywords if one.arg == keyword)
            function = node.func
            if isinstance(function, ast.Attribute) and function.attr == f"clamp_{keyword}":
                yield from node.args[-1:]


def _word(node: ast.expr) -> str:
    """``LOGIT_SCALE`` of ``self.logit_scale`` and of ``logit_scale``; empty where it is no word."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _word(node.operand)
        return inner and f"MINUS_{inner}"
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    word = name.strip("_").upper()
    is_short = _NAMELESS < len(word) <= _LONGEST
    return word if is_short and is_word(word) and not is_macro(word) else ""
