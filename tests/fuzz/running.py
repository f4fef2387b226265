"""One random program, generated for CUDA and run beside eager: where there is no GPU, in Triton's interpreter."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import math
import os
import re
import shutil
import sys
import traceback
import unittest.mock
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

import longhand
from longhand.api import generate
from longhand.emit.unit.loading import load_unit
from longhand.errors import LonghandError
from longhand.factory import Call
from longhand.loading import bound
from longhand.verify.comparison import Comparison, compare, distance
from longhand.verify.interpretation import move_to_cpu
from longhand.verify.original import InFloat64, in_other_bits
from longhand.verify.roundings import OtherRoundings
from tests.fuzz.minimize import values_of
from tests.fuzz.programs import Program

_DRAWS = 3  # of the arguments: a rounding error that is just over the bound does not come again
_NEAR = 4.0  # times the bound, in float64 too: small tensors have no largest error to speak of


class Outcome(enum.Enum):
    """What came of a program."""

    RIGHT = "right"
    EAGER_RAISES = "eager raises"
    REFUSED = "refused"  # with a message of longhand's own: told, and right in eager
    WRONG = "WRONG"
    CRASHED = "CRASHED"


class Side(enum.Enum):
    """What a program is written as."""

    TRITON = "triton"  # by `generate`, for CUDA
    CPP = "cpp"  # by `generate`, for the CPU
    COMPILED = "compiled"  # by `compile`, for the CPU


Change: TypeAlias = Callable[
    [Callable[..., Any]], Callable[..., Any]
]  # of a model into what runs in its place
FAILURES = (Outcome.WRONG, Outcome.CRASHED)


@dataclasses.dataclass(frozen=True)
class Report:
    """What came of a program, and why.

    Attributes:
        kernels: How many kernels its unit has.
        cause: Of a failure: what minimizing must keep (the exception and where it was raised, or the result).
        details: In words.
    """

    outcome: Outcome
    kernels: int = 0
    cause: str = ""
    details: str = ""

    @property
    def failed(self) -> bool:
        """Whether it is a bug."""
        return self.outcome in FAILURES


@dataclasses.dataclass(frozen=True)
class Runner:
    """Runs programs.

    Attributes:
        folder: Where the units go; each is removed after its run.
        device: Where the tensors are: "cuda", or "cpu" for Triton's interpreter (TRITON_INTERPRET=1 is set).
        compile_only: Compile the kernels for sm_90 and run nothing.
        side: What programs are written as.
    """

    folder: Path
    device: str = "cpu"
    compile_only: bool = False
    side: Side = Side.TRITON

    def run(self, program: Program) -> Report:
        """Generates, runs and compares."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                if _step(program, program.seed, self.device) is None:
                    return Report(Outcome.EAGER_RAISES)
                return self._compared(program)
            except Exception as error:
                return _crashed(error)

    def _compared(self, program: Program) -> Report:
        out = self.folder / f"unit_{program.seed}"
        shutil.rmtree(out, ignore_errors=True)
        try:
            if self.side is Side.COMPILED:
                return self._verdict(program, lambda model: _compiled(model, program, self.device))
            example = tuple(program.make_arguments(program.seed, self.device))
            model = program.make_model(program.seed, self.device)
            target = {"device": "cpu"} if self.side is Side.CPP else {"device": "cuda", "arch": "sm_90"}
            is_interpreted = self.side is Side.TRITON and self.device == "cpu" and not self.compile_only
            with _no_compiler() if is_interpreted else contextlib.nullcontext():
                generate(model, example, out=out, train=program.trains, run=False, **target)
            if is_interpreted or self.compile_only:
                _put_on_cpu(out)
            n_kernels = len([path for path in (out / "kernels").glob("*.py") if path.name != "__init__.py"])
            unit = load_unit(out)
            if self.compile_only:
                from tests.fuzz.compiled import compile_unit  # needs Triton without its interpreter

                compile_unit(unit, example)
                return Report(Outcome.RIGHT, n_kernels)
            if is_interpreted:
                move_to_cpu(sys.modules[unit.__module__.rpartition(".")[0]])
            verdict = self._verdict(program, lambda model: bound(unit, model))
            return dataclasses.replace(verdict, kernels=n_kernels)
        except LonghandError as error:
            if type(error).__name__ in ("CaptureError", "GraphBreakError", "OptionError"):
                return Report(Outcome.REFUSED, 0, type(error).__name__, str(error))
            return _crashed(error)
        finally:
            if not os.environ.get("LONGHAND_FUZZ_KEEP"):
                shutil.rmtree(out, ignore_errors=True)
            _forget(out.name)

    def _verdict(self, program: Program, change: Change) -> Report:
        found: list[Comparison] = []
        for seed in range(program.seed, program.seed + _DRAWS):
            rows = compare_step(program, change, seed, self.device)
            found = [row for row in rows if row.note or row.error > _NEAR * row.bound]
            found = found and _beyond_noise(found, program, seed, self.device)
            if not found:
                return Report(Outcome.RIGHT)
        worst = found[0]
        words = (
            f"{worst.name}: error {worst.error:.3g}, allowed {worst.bound:.3g} {worst.note} {worst.mismatch}"
        )
        return Report(Outcome.WRONG, 0, worst.name.partition("[")[0], words)


def compare_step(program: Program, change: Change, seed: int, device: str = "cpu") -> list[Comparison]:
    """Every result, gradient and argument after the call: those of what `change` makes of the model against eager's."""
    eager, ours = _step(program, seed, device), _step(program, seed, device, change, must_run=True)
    exact = _step(program, seed, device, is_double=True)
    if eager is None or ours is None:
        return []
    exact = exact or eager  # what refuses float64
    rows = []
    for name, theirs in eager.items():
        if name in ours:
            row = compare(name, ours[name], theirs, exact.get(name, theirs))
            note = "" if "scaled_dot_product" in program.text else _other_layout(name, ours[name], theirs)
            if note and any(map(_lies_both_ways, values_of(program).values())):
                note = ""
            if note:  # of some operations what a graph knows is how they lie on a GPU
                traced = _step(program, seed, "meta") or {}
                note = note if name not in traced else _other_layout(name, ours[name], traced[name]) and note
            rows.append(dataclasses.replace(row, note=row.note or note))
        elif not (name.startswith("gradient") and not theirs.any()):  # none is a gradient of zero
            rows.append(Comparison(name, float("inf"), 0.0, 0.0, "missing"))
    return rows


def _lies_both_ways(value: Tensor) -> bool:
    """Whether images of one channel, or of one pixel: of them libraries go by steps that say nothing."""
    return value.dim() > 3 and (value.shape[1] == 1 or math.prod(value.shape[2:]) == 1)


def _other_layout(name: str, ours: Tensor, theirs: Tensor) -> str:
    """How a result lies where that is not as in eager: of what overlaps or has gaps nothing is promised.

    Nor of attention, which lies otherwise on a GPU.
    """
    if (
        not name.startswith("result")
        or theirs.numel() != theirs.untyped_storage().nbytes() // theirs.itemsize
    ):
        return ""
    steps = [
        (a, b) for size, a, b in zip(theirs.shape, ours.stride(), theirs.stride(), strict=True) if size > 1
    ]
    is_same = all(a == b for a, b in steps) or not theirs.numel()
    return "" if is_same else f"strides {ours.stride()}, in eager {theirs.stride()} of {tuple(theirs.shape)}"


def _beyond_noise(found: list[Comparison], program: Program, seed: int, device: str) -> list[Comparison]:
    """Those that eager does not explain by how far it moves where arguments, or operations, move by a last bit."""
    runs = [_step(program, seed, device, bits=draw) for draw in (None, *range(_DRAWS))]
    for draw in range(_DRAWS):
        with OtherRoundings(draw):
            runs.append(_step(program, seed, device))
    plain, *others = [run or {} for run in runs]

    def noise(name: str) -> float:
        same = [other[name] for other in others if name in other and other[name].shape == plain[name].shape]
        return max((distance(one, plain[name]) for one in same), default=0.0)

    return [row for row in found if row.note or row.error > _NEAR * noise(row.name)]


def _step(
    program: Program,
    seed: int,
    device: str,
    change: Change = lambda model: model,
    *,
    is_double: bool = False,
    must_run: bool = False,
    bits: int | None = None,
) -> dict[str, Tensor] | None:
    """What a call leaves, by name; None where it raises.

    Args:
        change: What runs, made of the model.
        is_double: Everything in float64.
        must_run: What raises is told.
        bits: Draws the last bits of weights and arguments.
    """
    call = Call(program.make_model(seed, device), tuple(program.make_arguments(seed, device)), {})
    if bits is not None:
        call = in_other_bits(call, bits)
    model, given = call.model, list(call.args)
    if is_double:
        given = [_double(one) if one.is_floating_point() else one for one in given]
        model = model.double() if isinstance(model, nn.Module) else model
    run = InFloat64(model) if is_double else change(model)
    try:
        with torch.set_grad_enabled(program.trains):
            results = run(*given)
            found = {f"result[{place}]": one for place, one in enumerate(results)}
            carrying = [one for one in results if one.requires_grad and one.is_floating_point()]
            if carrying:
                generator = torch.Generator().manual_seed(seed)
                noise = [torch.randn(one.shape, generator=generator).to(one) for one in carrying]
                torch.autograd.backward(carrying, noise)
    except Exception:
        if must_run:
            raise
        return None
    found = {name: one.detach() for name, one in found.items()}
    of_call = {argument.name: tensor for argument, tensor in zip(program.given, given, strict=True)}
    owner = run if isinstance(run, nn.Module) else model
    if isinstance(owner, nn.Module):
        own = {
            word.rpartition(".")[2]: one for word, one in (*owner.named_parameters(), *owner.named_buffers())
        }
        of_call |= {argument.name: own[argument.name] for argument in program.weights}
    found |= {f"gradient of {name}": one.grad for name, one in of_call.items() if one.grad is not None}
    return found | {f"{name} after the call": one.detach() for name, one in of_call.items()}


def _double(tensor: Tensor) -> Tensor:
    """In float64, with the same strides."""
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=torch.float64, device=tensor.device)
    return made.copy_(tensor.detach()).requires_grad_(tensor.requires_grad)


def _crashed(error: BaseException) -> Report:
    """A report with where the exception was raised: the last frame in longhand or in the unit."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "site-packages" not in f.filename and "tests/fuzz" not in f.filename]
    at = ours[-1] if ours else frames[-1]
    is_unit = "/unit_" in at.filename
    place = (
        Path(at.filename).name if not is_unit else f"the unit's {Path(at.filename).parent.name.split('_')[0]}"
    )
    words = re.sub(r"\w*\d\w*", "N", str(error).strip().partition("\n")[0])[:90]
    where = place if is_unit else f"{place}, {at.name}"
    text = "".join(traceback.format_exception(error))
    return Report(Outcome.CRASHED, 0, f"{type(error).__name__} in {where}: {words}", text[-3000:])


def _compiled(model: Callable[..., Any], program: Program, device: str) -> Callable[..., Any]:
    """The model compiled, called before with images that lie otherwise: they ask for a graph of their own."""
    compiled = longhand.compile(model, options={"strict": True})
    given = [_lying_otherwise(one) for one in program.make_arguments(program.seed, device)]
    held = {name: one.clone() for name, one in model.named_buffers()} if isinstance(model, nn.Module) else {}
    with torch.set_grad_enabled(program.trains):
        compiled(*given)
    for name, value in held.items():
        model.get_buffer(name).copy_(value)  # type: ignore[attr-defined]
    return compiled  # type: ignore[no-any-return]


def _lying_otherwise(tensor: Tensor) -> Tensor:
    if tensor.dim() != 4:
        return tensor
    is_plain = tensor.is_contiguous()
    layout = torch.channels_last if is_plain else torch.contiguous_format
    return tensor.detach().contiguous(memory_format=layout).requires_grad_(tensor.requires_grad)


@contextlib.contextmanager
def _no_compiler() -> Iterator[None]:
    """What is interpreted is not compiled: that takes as long as all else, and ``--compile`` does it."""
    nothing_faulty = unittest.mock.patch("longhand.pipeline.faulty_kernels", lambda *_: {})
    with nothing_faulty, unittest.mock.patch("longhand.pipeline.make_ready", lambda _: None):
        yield


def _put_on_cpu(out: Path) -> None:
    """What model.py makes by itself, from no argument, is made on the GPU."""
    for path in out.glob("*.py"):
        path.write_text(re.sub(r'"cuda(:\d+)?"', '"cpu"', path.read_text()))


def _forget(name: str) -> None:
    """Drops a unit's modules: there will be thousands."""
    for key in [key for key in sys.modules if key.startswith(f"longhand_unit_{name}_")]:
        del sys.modules[key]
