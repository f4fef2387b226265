"""How names, dtypes and numbers are written in a Triton kernel file: one scope, in which every name is given once."""

from __future__ import annotations

import math
from collections.abc import Container, Hashable, Iterator

import torch

from longhand.emit.text.kernel_head import NamedConstant, named_constants
from longhand.lower.ir import AxisSize, Constant, Pointwise, PointwiseOp, Scalar, Store, Value, arguments
from longhand.schedule.named_plan import KernelNames, pointer_word
from longhand.schedule.names.words import RESERVED_IN_KERNEL, Scope
from longhand.schedule.plan import KernelPlan

_LANGUAGE = {
    torch.bool: "tl.int1",
    torch.int8: "tl.int8",
    torch.uint8: "tl.uint8",
    torch.int16: "tl.int16",
    torch.int32: "tl.int32",
    torch.int64: "tl.int64",
    torch.float16: "tl.float16",
    torch.bfloat16: "tl.bfloat16",
    torch.float32: "tl.float32",
    torch.float64: "tl.float64",
}
_WORD = {torch.float16: "fp16", torch.bfloat16: "bf16"}


def language_dtype(dtype: torch.dtype) -> str:
    """The dtype inside a kernel: ``tl.float32``."""
    return _LANGUAGE[dtype]


def dtype_word(dtype: torch.dtype) -> str:
    """The dtype in a parameter's comment: ``bf16``, ``float32``."""
    return _WORD.get(dtype, str(dtype).removeprefix("torch."))


def is_narrow(dtype: torch.dtype) -> bool:
    """Whether a buffer of `dtype` is computed on in float32."""
    return dtype in _WORD


def number(value: float | int | bool, dtype: torch.dtype) -> str:
    """A Python literal that Triton gives the kind (bool, integer, float) of `dtype`."""
    if dtype is torch.bool:
        return str(bool(value))
    if not dtype.is_floating_point:
        return str(int(value))
    value = float(value)
    if math.isnan(value):
        return 'float("nan")'
    if math.isinf(value):
        return 'float("inf")' if value > 0 else 'float("-inf")'
    return repr(value)


def typed_numbers(
    body: tuple[Value, ...],
    named: Container[int] = frozenset(),
    one_way: Container[PointwiseOp] = frozenset(),
    of_tensors: Container[PointwiseOp] = frozenset(),
) -> set[int]:
    """Numbers whose literal would lose digits or give the operation too small a dtype.

    Args:
        body: The kernel's.
        named: Constants that stand under a name at the top of the file: they cannot stand left of `one_way`.
        one_way: Infix operations.
        of_tensors: Functions for which a number is of float32 whatever stands beside it, and that want a tensor.
    """
    numbers = set()
    for value in body:
        args = arguments(value)
        if isinstance(value, Pointwise) and value.op in one_way and args[0] in named:
            numbers.add(args[0])
        if isinstance(value, Pointwise) and value.op in of_tensors:
            numbers.update(arg for arg in args if isinstance(body[arg], _NUMBERS) and _is_double(body[arg]))
            if all(_is_number(arg, body) for arg in args):
                numbers.update(_first_leaf(arg, body) for arg in args)
        if isinstance(value, Pointwise) and all(
            isinstance(body[arg], Constant | Scalar | AxisSize) for arg in args
        ):
            numbers.update(arg for arg in args if _is_double(body[arg]))
        for arg in args:
            constant = body[arg]
            if not isinstance(constant, Constant) or _fits_literal(constant.value, constant.dtype):
                continue
            infix = isinstance(value, Pointwise) and len(args) == 2 and not isinstance(value, Store)
            if not infix or all(isinstance(body[other], Constant) for other in args):
                numbers.add(arg)
        chooses = isinstance(value, Pointwise) and value.op is PointwiseOp.WHERE and value.dtype.itemsize == 8
        if chooses and all(isinstance(body[arg], Constant) for arg in args[1:]):
            numbers.add(args[1])
    return numbers


_NUMBERS = (Constant, Scalar, AxisSize)


def _is_number(position: int, body: tuple[Value, ...]) -> bool:
    """Whether a value is made of numbers alone, so that Triton may not take it for a tensor."""
    value = body[position]
    if isinstance(value, Pointwise):
        return all(_is_number(arg, body) for arg in value.args)
    return isinstance(value, _NUMBERS)


def _first_leaf(position: int, body: tuple[Value, ...]) -> int:
    """The number that stands first in it: as a tensor it makes one of the whole."""
    value = body[position]
    return _first_leaf(value.args[0], body) if isinstance(value, Pointwise) else position


def _is_double(value: Value) -> bool:
    """Whether it is of float64: without a tensor beside it Triton would compute in float32."""
    return not isinstance(value, Store) and value.dtype is torch.float64


def _fits_literal(value: float | int | bool, dtype: torch.dtype) -> bool:
    """Whether a literal that stands alone keeps the value: Triton reads it as int32 or float32."""
    if dtype is torch.float64:
        return math.isnan(value) or torch.tensor(float(value), dtype=torch.float32).item() == value
    return dtype is not torch.int64 or -(2**31) <= value < 2**31


# Constants that the templates and the printers of kernels write by these names.
CONSTEXPRS = frozenset(
    {"ALIGNMENT", "BLOCK", "COLS", "ELEMENTS", "LOWEST", "MAX_COLS", "ROWS", "SPLITS", "TILE"}
)
# Reserved, so that no value takes them, because printing asks for them.
_OF_PRINTING = frozenset({"acc", "at", "new_max", "row_start", "running_max", "running_sum"})


class FileScope:
    """Gives out names.

    Args:
        plan: The kernel.
        names: The words that it has already.

    Attributes:
        constants: The numbers that stand under a name at the top of the file, by position in the body.
    """

    def __init__(self, plan: KernelPlan, names: KernelNames) -> None:
        self._scope = Scope((RESERVED_IN_KERNEL - _OF_PRINTING) | CONSTEXPRS)
        self._given: dict[Hashable, str] = {}
        words = frozenset(_words(plan, names))
        self.constants: dict[int, NamedConstant] = named_constants(
            plan.body, words | CONSTEXPRS, names.constants
        )
        for word in (*words, *(constant.name for constant in self.constants.values())):
            self._scope.take(word)

    def name(self, purpose: Hashable, *candidates: str) -> str:
        """The name of something that printing adds: the one it has, or the first candidate that is free.

        Args:
            purpose: What it is for; who asks for the same gets the same. What loops set anew, each for itself, is one
                purpose.
            candidates: Names, best first.
        """
        if purpose not in self._given:
            self._given[purpose] = self._scope.pick(candidates)
        return self._given[purpose]


def _words(plan: KernelPlan, names: KernelNames) -> Iterator[str]:
    """What naming.py has given out, and the tunables."""
    yield names.kernel
    for word in (*names.pointers.values(), *names.lists.values()):
        yield word
        yield pointer_word(word)
    for axis in names.axes.values():
        yield axis.index
        yield axis.size
    yield from names.ints.values()
    yield from names.scalars.values()
    yield from names.values.values()
    yield from (tunable.name for tunable in plan.tunables)
