"""When is a result right: at most twice as far from float64 as eager is, or within one unit in the last place.

A result in float64 has nothing better to be compared with than eager's own, which is off by its roundings: the variance
of 18,000 numbers by 23 units in the last place, where exact arithmetic and ours agree.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree

EAGER_FACTOR = 2.0
_FLOAT64_UNITS = (
    64  # in the last place: what float64 in eager may be off; computed in float32 it would be 2**29
)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One tensor, compared.

    Attributes:
        name: ``result``, ``result[1]``, ``x after the call``.
        error: The largest distance from the float64 reference; infinite where NaN or infinity stand elsewhere.
        eager_error: The same of eager PyTorch in the tensor's own dtype; of whole numbers, how many differ.
        bound: What `error` may be.
        note: What is wrong besides numbers (shape, dtype), else empty.
        mismatch: The first element that is farther off than allowed, its index and both values; else empty.
        scale: The largest finite number of the reference.
        remark: Where PyTorch's own number is wrong, why, and what it was compared with instead; else empty.
    """

    name: str
    error: float
    eager_error: float
    bound: float
    note: str = ""
    mismatch: str = ""
    scale: float = 0.0
    remark: str = ""

    @property
    def is_right(self) -> bool:
        """Whether the tensor passes."""
        return not self.note and self.error <= self.bound


def compare(name: str, ours: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> Comparison:
    """Compares one result with eager's and with the same in float64.

    Args:
        ours: What the unit returned.
        eager: What eager PyTorch returns, same dtype.
        exact: What it returns when all floats are float64.
    """
    if ours.shape != eager.shape or ours.dtype != eager.dtype:
        note = f"expected {eager.dtype} {tuple(eager.shape)}, got {ours.dtype} {tuple(ours.shape)}"
        return Comparison(name, math.inf, 0.0, 0.0, note)
    if eager.is_complex():  # two floats, each as right as one alone
        exact = exact if exact.is_complex() else eager
        ours, eager, exact = (torch.view_as_real(one.resolve_conj()) for one in (ours, eager, exact))
    if not eager.dtype.is_floating_point:
        differ = int((ours != eager).sum())
        note = f"{differ} elements differ" if differ else ""
        n_of_eager = float((eager != exact).sum()) if exact.shape == eager.shape else 0.0
        return Comparison(name, float(differ), n_of_eager, 0.0, note, first_mismatch(ours, eager, 0.0))
    reference = exact.double()
    scale, eps = _largest(reference), torch.finfo(eager.dtype).eps
    eps *= _FLOAT64_UNITS if eager.dtype is torch.float64 else 1
    least = (
        eps * torch.finfo(eager.dtype).smallest_normal
    )  # a unit in the last place of what is next to nothing
    of_eager = _differences(eager, reference)
    eager_error = float(of_eager.max()) if eager.numel() else 0.0
    bound = max(EAGER_FACTOR * eager_error, eps * scale, least)
    if math.isinf(eager_error):
        # Eager itself leaves the range of the dtype: there we must be where eager is, or where float64 is.
        is_out = of_eager.isinf()
        reference = torch.where(is_out & (_differences(ours, eager) == 0), eager.double(), reference)
        rounded = reference.to(eager.dtype).double()  # infinite where float64 goes beyond the dtype, too
        reference = torch.where(is_out & (_differences(ours, rounded) == 0), rounded, reference)
        eager_error_inside = float(torch.where(is_out, 0.0, of_eager).max())
        bound = max(EAGER_FACTOR * eager_error_inside, eps * _largest(reference), least)
    mismatch = first_mismatch(ours, reference, bound)
    return Comparison(name, distance(ours, reference), eager_error, bound, "", mismatch, scale)


def _largest(reference: torch.Tensor) -> float:
    """The largest finite number."""
    finite = reference[reference.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def distance(value: torch.Tensor, reference: torch.Tensor) -> float:
    """The largest absolute difference; infinite unless NaN and infinities stand in the same places."""
    return float(_differences(value, reference).max()) if value.numel() else 0.0


def first_mismatch(value: torch.Tensor, reference: torch.Tensor, bound: float) -> str:
    """The first element that is farther from the reference than `bound`, in words; empty if there is none."""
    wrong = (_differences(value, reference) > bound).nonzero()
    if not len(wrong):
        return ""
    index = tuple(wrong[0].tolist())
    return f"at {list(index)}: {value[index].item():.9g}, expected {reference[index].item():.9g}"


def _differences(value: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    value, reference = (
        (torch.view_as_real(one.resolve_conj()) if one.is_complex() else one).double()
        for one in (value, reference)
    )
    same = (value == reference) | (value.isnan() & reference.isnan())
    difference = torch.where(same, 0.0, (value - reference).abs())
    return torch.where(difference.isfinite(), difference, math.inf)


def is_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same, NaN included."""
    return bool(((one == other) | ((one != one) & (other != other))).all())


def tensors_by_name(prefix: str, value: Any) -> list[tuple[str, torch.Tensor]]:
    """The tensor leaves of a result with a name each."""
    leaves: Sequence[Any] = pytree.tree_leaves(value)
    if len(leaves) == 1 and isinstance(leaves[0], torch.Tensor):
        return [(prefix, leaves[0])]
    return [(f"{prefix}[{i}]", leaf) for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
