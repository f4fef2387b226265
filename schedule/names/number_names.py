"""What the user calls a number: ``BETA2`` for 0.999, where a file of the model binds it so, and ``SQRT_2_OVER_PI``
for one that a statement writes out as ``math.sqrt(2.0 / math.pi)``."""

from __future__ import annotations

import ast
import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from longhand.lower.ir import Constant, Pointwise, PointwiseOp
from longhand.schedule.names.meanings.settings import SMALL, is_small, setting_word
from longhand.schedule.names.shared.callers import Callers
from longhand.schedule.names.words import is_macro
from longhand.schedule.plan import KernelPlan


def constant_names(plan: KernelPlan, callers: Callers) -> dict[int, str]:
    """By position in the body: the user's name for a number, where its statement has one."""
    words = callers.first.words
    names: dict[int, str] = {}
    for position, value in enumerate(plan.body):
        if not isinstance(value, Constant) or value.name:
            continue
        users = [user for user in plan.body if isinstance(user, Pointwise) and position in user.args]
        if least_of(value) is not None:
            names[position] = LEAST
            continue
        settings = {setting_word(value, user, callers) for user in users}
        if len(settings) == 1 and "" not in settings:  # one number may be several things by chance
            names |= {position: settings.pop()}
            continue
        if not value.dtype.is_floating_point:
            compared = _compared(users, callers)
            names |= {position: compared} if compared else {}
            continue
        if is_small(value, users):
            names[position] = SMALL
        for user in users:
            origin = words.provenance(user.origin)
            named = _named_numbers(origin.file, origin.statement).get(value.value)
            if named is not None and names.get(position) in (None, SMALL):
                names[position] = named
    return names


LEAST = "LEAST_FLOAT"  # of its type: what hides a score from a softmax


def least_of(number: Constant) -> torch.dtype | None:
    """The type that a number is the least of; None if it is none's."""
    kinds = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    is_float = number.dtype.is_floating_point
    return next((kind for kind in kinds if is_float and number.value == torch.finfo(kind).min), None)


_COMPARISONS = frozenset(
    {PointwiseOp.EQ, PointwiseOp.NE, PointwiseOp.LT, PointwiseOp.LE, PointwiseOp.GT, PointwiseOp.GE}
)


def _compared(users: Sequence[Pointwise], callers: Callers) -> str:
    """What all calls of a kernel compare something with in one place, by the user's name; empty if they have none."""
    if len(users) != 1 or users[0].op not in _COMPARISONS:
        return ""
    statement = callers.first.words.provenance(users[0].origin).statement
    is_of_all = all(
        any(caller.words.provenance(origin).statement == statement for origin in caller.launch.origins)
        for caller in callers.every
    )
    return compared_attribute(statement) if is_of_all else ""


@functools.lru_cache(maxsize=1024)
def compared_attribute(statement: str) -> str:
    """``EOS_TOKEN_ID`` of ``ids == self.eos_token_id``, the one comparison of a statement; empty if there is none."""
    try:
        tree = ast.parse(statement)
    except SyntaxError:  # the head of a compound statement
        return ""
    compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    if len(compared) != 1 or len(compared[0].ops) != 1:
        return ""
    sides = (compared[0].left, compared[0].comparators[0])
    words = [one.attr.upper() for one in sides if isinstance(one, ast.Attribute) and _is_of_self(one)]
    is_name = len(words) == 1 and words[0].isascii() and words[0].isidentifier() and not is_macro(words[0])
    return words[0] if is_name else ""


def _is_of_self(node: ast.Attribute) -> bool:
    """Whether it is an attribute of the module at hand, or of what that holds: ``self.config.eos_token_id``."""
    owner: ast.expr = node
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return isinstance(owner, ast.Name) and owner.id == "self"


@functools.lru_cache(maxsize=1024)
def _named_numbers(file: str, statement: str) -> dict[float, str]:
    """By number: what a statement calls it."""
    try:
        tree = ast.parse(statement)
    except SyntaxError:  # the head of a compound statement
        return {}
    bound = _bound_numbers(file) if file else {}
    names: dict[float, str] = {}
    for node in ast.walk(tree):
        for written in _written_out(node):
            names.setdefault(written.value, written.name)
        match node:
            case ast.Name(id=name) if name in bound:
                names[bound[name]] = name
            case ast.BinOp(ast.Constant(1 | 1.0), ast.Sub(), ast.Name(id=name)) if name in bound:
                names[1 - bound[name]] = f"ONE_MINUS_{name}"
    return names


@dataclasses.dataclass(frozen=True)
class _SpelledNumber:
    """A number as a statement writes it out: ``math.sqrt(2.0 / math.pi)``.

    Attributes:
        word: ``SQRT_2_OVER_PI``, to be part of a longer name; of a digit the digit.
        is_telling: Whether a function of the mathematics, or pi, is part of it: a digit needs no name.
        is_simple: Whether it may stand at the left of a quotient, whose word then means nothing else.
    """

    value: float
    word: str
    is_telling: bool = True
    is_simple: bool = False

    @property
    def name(self) -> str:
        """The word as a name of its own: ``TWO_PI`` for ``2_PI``, since a name begins with a letter."""
        first, joint, rest = self.word.partition("_")
        return f"{_DIGITS[int(first)]}{joint}{rest}" if first.isdigit() else self.word


_DIGITS = ("ZERO", "ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE")
_FUNCTIONS = {"sqrt": math.sqrt, "log": math.log, "exp": math.exp}


def _written_out(node: ast.AST) -> Iterator[_SpelledNumber]:
    """A number that needs a name, and its reciprocal, by which a division may multiply; none of any other node."""
    try:
        spelled = _spelled(node)
    except (ArithmeticError, ValueError):  # exp(exp(9)), 2 / log(1), sqrt(log(1) - 1)
        return
    if spelled is not None and spelled.is_telling and spelled.value > 0 and not is_macro(spelled.name):
        yield spelled
        yield _SpelledNumber(1 / spelled.value, f"1_OVER_{spelled.word}")


def _spelled(node: ast.AST) -> _SpelledNumber | None:
    match node:
        case ast.Constant(int() | float() as value) if value in range(1, 10):
            return _SpelledNumber(float(value), str(int(value)), is_telling=False, is_simple=True)
        case ast.Attribute(attr="pi"):
            return _SpelledNumber(math.pi, "PI", is_simple=True)
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[of], keywords=[]):
            inner = _spelled(of) if name in _FUNCTIONS else None
            return inner and _SpelledNumber(_FUNCTIONS[name](inner.value), f"{name.upper()}_{inner.word}")
        case ast.BinOp(left, ast.Div() | ast.Mult() as op, right) if not isinstance(right, ast.BinOp):
            one, other = _spelled(left), _spelled(right)
            if one is None or other is None or not one.is_simple:
                return None
            is_telling = one.is_telling or other.is_telling
            if isinstance(op, ast.Div):
                return _SpelledNumber(one.value / other.value, f"{one.word}_OVER_{other.word}", is_telling)
            # 2 * 3 is no 2_3.
            word = f"{one.word}_{other.word}"
            return _SpelledNumber(one.value * other.value, word) if is_telling else None
    return None


@functools.lru_cache(maxsize=64)
def _bound_numbers(file: str) -> dict[str, float]:
    """The names in capitals that a file binds to a fraction, once, at its top level."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    pairs = [pair for statement in tree.body for pair in _bindings(statement)]
    names = [name for name, _ in pairs]
    return {
        name: value.value
        for name, value in pairs
        if name.isupper()
        and name.isascii()
        and not is_macro(name)
        and names.count(name) == 1
        and isinstance(value, ast.Constant)
        and isinstance(value.value, float)
    }


def _bindings(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """``A, B = 1.0, 2.0`` gives both names with their values."""
    match statement:
        case ast.Assign([ast.Name(id=name)], value):
            yield name, value
        case ast.AnnAssign(ast.Name(id=name), _, ast.expr() as value):
            yield name, value
        case ast.Assign([ast.Tuple(elts=targets)], ast.Tuple(elts=values)) if len(targets) == len(values):
            for target, value in zip(targets, values, strict=True):
                if isinstance(target, ast.Name):
                    yield target.id, value
