"""Whether one tensor of a sample is right: by the rule of `longhand verify`, and by eager where float64 tells little.

Four things are no fault of generated code, and are told apart here. Where 16 bits overflow on the way to what
float64 finds finite, eager has infinity, minus infinity or NaN: which one depends on where sums begin; and who does not
overflow is right to a few units. Where 16 bits round an exponent to a whole number, eager has a power of a negative
number, and float64 has none: there eager says what is right. An error of
eager's is one draw: of two sums that round equally often, one is more than twice as far off as the other in three of
ten cases, so that in 16 bits eager's error is the largest of several draws of the same call. And where eager agrees
with float64, what is as near to float64 as eager is right, however small the sum is that its terms leave.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from longhand.verify.comparison import EAGER_FACTOR, compare, distance
from longhand.verify.roundings import OtherRoundings
from tests.autograd.op_programs import Program, seen

__all__ = ["LOOSE", "NEAR", "Verdict", "drawn_error", "judge", "noise_of_roundings", "plain"]

NEAR = 1e-5  # relative: sums that cancel, where eager's rounding happens to do so, too
LOOSE = 1e-3  # relative: where eager is farther than that from float64, we must be where eager is
_DRAWS = 6
_UNITS = 4  # of 16 bits, that a number may be off where eager overflowed


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What is said of a tensor.

    Attributes:
        is_right: Nothing is wrong with it.
        is_near: It is where eager happens to be closer; `is_right` is True.
        words: What is off.
    """

    is_right: bool
    is_near: bool = False
    words: str = ""


def judge(
    name: str,
    found: torch.Tensor,
    wanted: torch.Tensor,
    exact: Any,
    *,
    is_short: bool,
    error_of_eager: Callable[[], float] = lambda: 0.0,
    moved_by_roundings: Callable[[], float] = lambda: 0.0,
) -> Verdict:
    """Whether `found` is as right as eager's `wanted`.

    Args:
        name: What it is called in words.
        exact: The same in float64, if there is such a thing.
        is_short: Whether 16 bits hold it.
        error_of_eager: The largest error of eager's in several draws; asked where one was not enough.
        moved_by_roundings: How far eager's result moves where each of its operations rounds otherwise; asked last.
    """
    if not wanted.dtype.is_floating_point:
        is_equal = torch.equal(found, wanted)
        return Verdict(is_equal, words="" if is_equal else f"{name}: other values")
    exact = plain(exact) if isinstance(exact, torch.Tensor) else wanted
    exact = exact if exact.shape == wanted.shape else wanted
    if is_short:
        exact = torch.where(
            exact.isnan() & wanted.isfinite() & found.isfinite(), wanted.to(exact.dtype), exact
        )
        found = _without_overflow(found, wanted, exact)
    compared = compare(name, found, wanted, exact)
    if compared.is_right and compared.bound <= LOOSE * _scale(wanted):
        return Verdict(True)
    off = f"{name}: off by {compared.error:.2g}, allowed {compared.bound:.2g}: {compared.mismatch or compared.note}"
    # Ill-conditioned, or another sign of an eigenvector, or numbers drawn by another generator.
    apart, near = distance(found, wanted), NEAR * max(1.0, _scale(wanted))
    if apart <= near:
        return Verdict(True, is_near=not compared.is_right, words="" if compared.is_right else off)
    if compared.is_right and compared.eager_error <= near:
        return Verdict(True)  # eager says the same as float64, and we are as near to that
    if compared.is_right and compared.error <= NEAR * NEAR and exact is not wanted:
        return Verdict(True)  # as in float64 to ten digits: it is eager that is off, around zero
    if compared.is_right and (is_short or apart <= LOOSE * _scale(wanted)):
        return Verdict(True)
    if is_short and exact is not wanted and compared.error <= EAGER_FACTOR * error_of_eager():
        return Verdict(True)
    if compared.error <= EAGER_FACTOR * moved_by_roundings():
        return Verdict(True, is_near=True, words=off)
    return Verdict(False, words=f"{off} ({apart:.2g} from eager)")


def _without_overflow(found: torch.Tensor, wanted: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """With eager's values where both overflowed on the way to a number that is none too large, or with that number
    where eager alone did and they are a few units apart."""
    is_held = exact.abs() <= torch.finfo(wanted.dtype).max
    overflowed = ~wanted.isfinite() & is_held
    apart = (found.to(exact.dtype) - exact).abs()
    is_near = overflowed & (apart <= _UNITS * torch.finfo(wanted.dtype).eps * exact.abs())
    found = torch.where(is_near, exact.to(found.dtype), found)
    return torch.where(overflowed & ~found.isfinite(), wanted, found)


def drawn_error(program: Program, name: str, *, train: bool) -> float:
    """The largest error of eager's in one of the tensors that are seen, of arguments a few units of 16 bits larger."""
    errors = [0.0]
    for draw in range(1, _DRAWS + 1):
        with torch.no_grad():
            given = [_larger(one, draw) for one in program.arguments(train=train)]
        wide = [one.detach().to(torch.float64) if one.dtype is program.dtype else one for one in given]
        exact = [one.requires_grad_(like.requires_grad) for one, like in zip(wide, given, strict=True)]
        try:
            of_eager = seen(program.function(), given).get(name)
            of_float64 = seen(program.in_float64(), exact).get(name)
        except Exception:  # such arguments are none of its own
            continue
        if isinstance(of_eager, torch.Tensor) and isinstance(of_float64, torch.Tensor):
            error = distance(plain(of_eager), plain(of_float64))
            errors.append(error if error < float("inf") else 0.0)
    return max(errors)


def noise_of_roundings(program: Program, name: str, *, train: bool) -> float:
    """How far one of the tensors that are seen moves where each operation of eager's ends in other last bits.

    What sums that cancel leave is nothing but that (a gradient that is zero in exact arithmetic), and so is the phase
    of a complex singular vector.
    """
    plainly = seen(program.function(), program.arguments(train=train)).get(name)
    moves = [0.0]
    for draw in range(_DRAWS):
        with contextlib.suppress(Exception), OtherRoundings(draw):  # some operations run under no mode
            other = seen(program.function(), program.arguments(train=train)).get(name)
            if isinstance(other, torch.Tensor) and isinstance(plainly, torch.Tensor):
                moves.append(distance(plain(other), plain(plainly)))
    return max(move for move in moves if move < float("inf"))


def _larger(tensor: torch.Tensor, draw: int) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor
    unit = torch.finfo(tensor.dtype).eps
    return (tensor.detach() * (1 + draw * unit)).requires_grad_(tensor.requires_grad)


def _scale(tensor: torch.Tensor) -> float:
    finite = tensor[tensor.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """It as numbers that can be compared."""
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
