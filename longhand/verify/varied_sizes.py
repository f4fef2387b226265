"""Sizes that may vary, tried at other values than the example's: which ones, and the example's tensors cut or grown.

The lock says which sizes vary, between what bounds, and how each argument's shape follows from them.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree

from longhand.capture.frontends.call import ordered_keywords
from longhand.errors import OptionError, UnitError
from longhand.factory import Call

NONE = "none"
_MOST_SETS = 64
_DRAWS = 2000
Sizes = Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class VariedSize:
    """One size that may vary.

    Attributes:
        name: As the unit calls it.
        minimum: The smallest that the unit is right for.
        maximum: The largest, or None.
        example: What it is in the example call.
    """

    name: str
    minimum: int
    maximum: int | None
    example: int


@dataclasses.dataclass(frozen=True)
class SizeRules:
    """What a lock says of sizes.

    Attributes:
        varied: The sizes that vary.
        shapes: (shape, strides) of each tensor that the call is given, in order: numbers, and expressions of sizes.
        conditions: What else must hold.
        places: Where sizes stand, as `generate --dynamic` has them, and which: ``tokens:0`` is ``batch``.
    """

    varied: tuple[VariedSize, ...]
    shapes: tuple[tuple[tuple[int | str, ...], tuple[int | str, ...]], ...]
    conditions: tuple[str, ...]
    places: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, lock: Mapping[str, Any]) -> SizeRules:
        """What this lock says; no size varies where it is of a longhand that did not note examples."""
        guards: list[dict[str, Any]] = lock.get("guards", [])
        varied = tuple(
            VariedSize(str(one["name"]), int(one["minimum"]), one["maximum"], int(one["example"]))
            for one in guards
            if one.get("dim") is not None and "example" in one
        )
        shapes = tuple((tuple(one["shape"]), tuple(one["stride"])) for one in guards if "shape" in one)
        conditions = tuple(str(one["condition"]) for one in guards if "condition" in one)
        names = {size.name for size in varied}
        places = {
            f"{one['name']}:{dim}": size
            for one in guards
            for dim, size in enumerate(one.get("shape", ()))
            if size in names
        }
        return cls(varied, shapes, conditions, places)

    def sets_of(self, texts: Sequence[str]) -> tuple[Sizes, ...]:
        """``("batch=1,7", "seq=5")``: each value of one with each of the others.

        Raises:
            OptionError: A text does not read so, names no size that varies, or leaves its range.
        """
        if list(texts) == [NONE]:
            return ()
        given: dict[str, list[int]] = {}
        for text in texts:
            match = re.fullmatch(r"\s*(\w+(?::\d+)?)\s*=\s*(\d+(?:\s*,\s*\d+)*)\s*", text)
            if match is None:
                raise OptionError(
                    f"--sizes {text!r} does not read NAME=N,N.", hint="For instance x:0=2,7,64."
                )
            size = self._named(match[1])
            values = [int(value) for value in match[2].split(",")]
            for value in values:
                if value < size.minimum or (size.maximum is not None and value > size.maximum):
                    most = f" to {size.maximum}" if size.maximum is not None else " or more"
                    raise OptionError(f"--sizes {size.name}={value}: the unit is for {size.minimum}{most}.")
            given.setdefault(size.name, []).extend(values)
        sets = [dict(zip(given, values, strict=True)) for values in itertools.product(*given.values())]
        if len(sets) > _MOST_SETS:
            raise OptionError(
                f"--sizes ask for {len(sets)} sets of sizes; at most {_MOST_SETS} are tried at once."
            )
        for one in sets:
            if broken := self._broken(self._whole(one)):
                raise OptionError(f"--sizes {in_words(one)}: the unit is for sizes with {broken}.")
        return tuple(sets)

    def drawn(self, seed: int | None = None, *, only_smaller: bool = False) -> tuple[Sizes, ...]:
        """One set below the example and one above it, at random, as far as the ranges and conditions allow."""
        chance = random.Random(seed)
        sets: list[Sizes] = []
        for is_above in (False, True) if not only_smaller else (False,):
            for _ in range(_DRAWS if self.varied else 0):
                one = {size.name: _draw(size, chance, is_above=is_above) for size in self.varied}
                is_new = any(one[size.name] != size.example for size in self.varied) and one not in sets
                if is_new and not self._broken(one):
                    sets.append(one)
                    break
        return tuple(sets)

    def resized(self, tensors: Sequence[torch.Tensor], sizes: Sizes) -> list[torch.Tensor]:
        """The example's tensors at other sizes.

        Raises:
            UnitError: They are not what the lock describes.
        """
        before, after = self._whole({}), self._whole(sizes)
        if len(tensors) != len(self.shapes):
            raise UnitError(
                f"The call has {len(tensors)} tensors, and its lock describes {len(self.shapes)}."
            )
        resized_tensors = []
        for tensor, (shape, strides) in zip(tensors, self.shapes, strict=True):
            if tuple(tensor.shape) != _values(shape, before):
                raise UnitError(
                    f"A tensor of shape {tuple(tensor.shape)} is not what the lock says: {shape}."
                )
            resized_tensors.append(_resized(tensor, _values(shape, after), _values(strides, after)))
        return resized_tensors

    def _named(self, name: str) -> VariedSize:
        for size in self.varied:
            if size.name == self.places.get(name, name):
                return size
        known = ", ".join([*self.places, *(size.name for size in self.varied)])
        hint = f"These do: {known}." if known else "None of its sizes does: see `generate --dynamic`."
        raise OptionError(f"--sizes: no size called {name!r} varies in this unit.", hint=hint)

    def _whole(self, sizes: Sizes) -> Sizes:
        return {size.name: size.example for size in self.varied} | dict(sizes)

    def _broken(self, sizes: Sizes) -> str:
        """The first condition that does not hold."""
        return next((text for text in self.conditions if not evaluated(text, sizes)), "")


def in_words(sizes: Sizes) -> str:
    """``batch=7, seq=12``."""
    return ", ".join(f"{name}={value}" for name, value in sizes.items())


def resized_call(rules: SizeRules, call: Call, sizes: Sizes) -> Call:
    """A call of the model with its tensors at other sizes.

    Raises:
        UnitError: The call is not what the lock describes.
    """
    model = call.model
    entry: Callable[..., Any] = model.forward if isinstance(model, torch.nn.Module) else model
    kwargs = ordered_keywords(entry, call.args, call.kwargs, type(model).__name__)
    args, kwargs = with_tensors((call.args, kwargs), lambda tensors: rules.resized(tensors, sizes))
    return Call(model, args, kwargs)


def with_tensors(tree: Any, change: Callable[[list[torch.Tensor]], Iterable[torch.Tensor]]) -> Any:
    """Nested containers with other tensors in the places of theirs."""
    leaves, spec = pytree.tree_flatten(tree)
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    for place, tensor in zip(places, change([leaves[place] for place in places]), strict=True):
        leaves[place] = tensor
    return pytree.tree_unflatten(leaves, spec)


def _draw(size: VariedSize, chance: random.Random, *, is_above: bool) -> int:
    most = 2 * size.example + 1 if size.maximum is None else min(size.maximum, 2 * size.example + 1)
    if is_above and most > size.example:
        return chance.randint(size.example + 1, most)
    return chance.randint(min(size.minimum, size.example), size.example)


def _values(texts: Sequence[int | str], sizes: Sizes) -> tuple[int, ...]:
    return tuple(text if isinstance(text, int) else evaluated(text, sizes) for text in texts)


def _resized(tensor: torch.Tensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
    """Rows are dropped, or repeated; what is repeated has other values, of the same sign, where it has a fraction."""
    resized = tensor.detach()
    for dim, size in enumerate(shape):
        if size != resized.shape[dim]:
            rows = torch.arange(size, device=resized.device) % resized.shape[dim]
            repeated = resized.index_select(dim, rows)
            if resized.is_floating_point() and size > resized.shape[dim]:
                tail = repeated.narrow(dim, resized.shape[dim], size - resized.shape[dim])
                tail.mul_(torch.rand_like(tail, dtype=torch.float32).to(tail.dtype) * 0.5 + 0.5)
            resized = repeated
    laid_out = torch.empty_strided(shape, strides, dtype=resized.dtype, device=resized.device).copy_(resized)
    return laid_out.requires_grad_(tensor.requires_grad)


def evaluated(text: str, sizes: Sizes) -> int:
    """A size, or a condition on sizes, as the lock writes it.

    Raises:
        UnitError: It is something else than arithmetic on sizes.
    """
    try:
        return _value(ast.parse(text, mode="eval").body, sizes)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, RecursionError) as error:
        raise UnitError(f"The lock's {text!r} is no expression of sizes.") from error


_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: lambda one, other: one + other,
    ast.Sub: lambda one, other: one - other,
    ast.Mult: lambda one, other: one * other,
    ast.FloorDiv: lambda one, other: one // other,
    ast.Mod: lambda one, other: one % other,
    ast.Eq: lambda one, other: one == other,
    ast.NotEq: lambda one, other: one != other,
    ast.Lt: lambda one, other: one < other,
    ast.LtE: lambda one, other: one <= other,
    ast.Gt: lambda one, other: one > other,
    ast.GtE: lambda one, other: one >= other,
}


def _value(node: ast.AST, sizes: Sizes) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return sizes[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, sizes)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, sizes)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if 0 <= power <= 8:
            return int(_value(left, sizes) ** power)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            return _OPERATORS[type(operator)](_value(left, sizes), _value(right, sizes))
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in _OPERATORS:
            return _OPERATORS[type(operator)](_value(left, sizes), _value(right, sizes))
        case ast.BoolOp(op=operator, values=values):
            truths = [bool(_value(value, sizes)) for value in values]
            return all(truths) if isinstance(operator, ast.And) else any(truths)
        case ast.Call(func=ast.Name(id="max" | "min" as name), args=args, keywords=[]):
            return (max if name == "max" else min)(_value(arg, sizes) for arg in args)
    raise ValueError(f"{type(node).__name__} is no arithmetic on sizes")
