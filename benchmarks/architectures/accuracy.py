"""How far the results of a step are from the exact ones, and how far eager's own are: what the table calls right."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch

from benchmarks.architectures.calls import copied
from benchmarks.architectures.example import Example
from longhand.factory import Call
from longhand.verify.original import in_other_bits

__all__ = ["Accuracy", "Reference", "accuracy", "reference"]

# Of weights and inputs that differ in their last bit: one number that is half a bit from zero below a relu turned in
# one of six of them (Segformer), and with it a thirtieth of a gradient.
_DRAWS = 24
_TF32 = 2.0**-10  # its last bit
_NOISE = 0.1  # of a tensor's scale: where eager is farther off, the tensor is nothing but rounding
Run = Callable[[Example], list[torch.Tensor]]


@dataclasses.dataclass(frozen=True)
class Reference:
    """What the tensors of a step are held against.

    Attributes:
        eager: Eager's.
        exact: The same in float64; eager's where it does not run there, or chooses other elements.
        errors: How far eager is off, of each: from the exact one, from a second run of its own and, without float64
            or where it is asked for, from runs on weights and inputs that differ in their last bit: of TF32, where a
            GPU's convolutions round to it.
    """

    eager: list[torch.Tensor]
    exact: list[torch.Tensor]
    errors: list[float]


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """How far results are off.

    Attributes:
        error: The largest distance from the exact one, relative to each tensor's scale.
        eager_error: Eager's.
        note: What else is wrong; empty if nothing is.
    """

    error: float
    eager_error: float
    note: str = ""


def reference(example: Example, run: Run, *, in_last_bits: bool = False) -> Reference:
    """Runs the original as often as it takes to know how exact it is.

    Args:
        example: What is called.
        run: Calls a copy of it.
        in_last_bits: Whether eager errs, besides, by what it moves where weights and inputs move by a bit: a batch
            norm over a few elements may hit its gradients by chance, and be off by a third with the next bit.
    """
    eager = run(example)
    others = [run(example)]
    exact = _exact(example, run, eager)
    if exact is None or in_last_bits:
        others += [run(_in_other_bits(example, draw)) for draw in range(_DRAWS if in_last_bits else 1)]
    errors = []
    for place, mine in enumerate(eager):
        beside = [other[place] for other in others if _alike(other, eager)] + (
            [exact[place]] if exact else []
        )
        errors.append(max((_distance(mine, other) for other in beside), default=0.0))
    return Reference(eager, exact or eager, errors)


def accuracy(actual: list[torch.Tensor], known: Reference) -> Accuracy:
    """How far the results are off.

    What is zero but for rounding (the gradient of a bias before a norm) is measured by the largest of all scales.
    """
    if [(t.shape, t.dtype) for t in actual] != [(t.shape, t.dtype) for t in known.eager]:
        note = f"{len(actual)} tensors, {len(known.eager)} expected, or of other shapes or types"
        return Accuracy(float("inf"), 0.0, note)
    scales = [_scale(one) for one in known.exact]
    ours = eagers = 0.0
    for mine, theirs, wide, error, own in zip(
        actual, known.eager, known.exact, known.errors, scales, strict=True
    ):
        if not mine.numel():
            continue
        if not bool((mine.isfinite() == theirs.isfinite()).all()):
            return Accuracy(float("inf"), 0.0, "NaN or infinity elsewhere than in eager")
        if not mine.dtype.is_floating_point:
            if not torch.equal(mine, theirs):
                note = f"{int((mine != theirs).sum())} of {mine.numel()} integers differ"
                return Accuracy(float("inf"), 0.0, note)
            continue
        scale = max(own if error < _NOISE * own else max(scales), 1e-12)
        ours = max(ours, _distance(mine, wide) / scale)
        eagers = max(eagers, error / scale)
    return Accuracy(ours, eagers)


def _exact(example: Example, run: Run, eager: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """The same in float64; None where some operation has none, or where other elements are chosen there."""
    try:
        exact = run(copied(example, torch.float64))
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return None
    same = len(exact) == len(eager) and all(a.shape == b.shape for a, b in zip(exact, eager, strict=True))
    return exact if same else None


def _in_other_bits(example: Example, draw: int) -> Example:
    model = example[0]
    on_gpu = any(weight.is_cuda for weight in model.parameters())
    convolves = any(isinstance(part, torch.nn.modules.conv._ConvNd) for part in model.modules())
    rounds = on_gpu and convolves and torch.backends.cudnn.allow_tf32
    other = in_other_bits(Call(*copied(example)), draw, least=_TF32 if rounds else 0.0)
    assert isinstance(other.model, torch.nn.Module)
    return other.model, other.args, other.kwargs


def _alike(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    return [one.shape for one in some] == [one.shape for one in others]


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    if not one.numel() or not one.dtype.is_floating_point:
        return 0.0
    return (one.double() - other.double()).abs().nan_to_num(posinf=0).max().item()


def _scale(value: torch.Tensor) -> float:
    if not value.numel() or not value.dtype.is_floating_point:
        return 0.0
    return value.double().abs().nan_to_num(posinf=0).max().item()
