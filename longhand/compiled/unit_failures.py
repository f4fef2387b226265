"""What a unit raises and eager does not: told once, and the unit is never called again.

The first call of a graph keeps what it is about to change (inputs that it writes into, random generators), so that it
can be taken back where the unit fails: then eager runs the same call. A unit that fails later, after it may have
written into an input, cannot be taken back: its exception is the call's.
"""

from __future__ import annotations

import linecache
import os
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from longhand.capture import torch_private
from longhand.capture.bytecode.entry.call_effects import random_state, restore_random_state
from longhand.compiled.second_derivatives import AGAIN, REASON, SecondDerivatives
from longhand.compiled.watched_results import ASKED, GradientOfPartError, refuse_asked
from longhand.errors import EagerWarning, UnitError
from longhand.telling.tally import EagerGraph

__all__ = ["UnitHealth", "health_of", "unless_failing"]

# What a checkpoint ends its computation with, and what users handle by trying a smaller batch.
PASSED_ON = (torch_private.StopRecomputation, torch.OutOfMemoryError, MemoryError)
_MOST_KEPT = 2**30  # bytes of written inputs that the first call copies
_HALF_DONE = (
    "longhand: a generated unit raised this, and may have written into inputs of the call before it did. "
    "Later calls run in eager."
)


class UnitHealth:
    """Whether a unit has raised what eager does not.

    Args:
        folder: The unit's.
        strict: Whether that is an error instead of a warning.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.failure: str | None = None
        self.second = SecondDerivatives()

    def describe(self, error: BaseException) -> str:
        """The exception, and the line of the unit that it comes from."""
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        return f"{text} ({self.place(error)})"

    def place(self, error: BaseException) -> str:
        """``FILE:line, in function`` of the innermost frame in the unit, else its folder."""
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if os.path.realpath(frame.filename).startswith(f"{self.folder}{os.sep}")
        ]
        return (
            f"{frames[-1].filename}:{frames[-1].lineno}, in {frames[-1].name}" if frames else str(self.folder)
        )

    def leave_to_eager(self, reason: str) -> None:
        """The unit cannot do what is asked of it: warns, once."""
        if self.failure is None:
            self.failure = reason
            warnings.warn(
                f"longhand: {reason}. Its graph runs in eager from now on.", EagerWarning, stacklevel=3
            )

    def fail(self, error: BaseException) -> None:
        """Warns, once."""
        if self.failure is None:
            self.failure = f"its unit raised {self.describe(error)}"
            warnings.warn(
                f"longhand: a generated unit raised {self.describe(error)}, which eager does not. Its graph runs in "
                "eager from now on. LONGHAND_STRICT=1 raises instead.",
                EagerWarning,
                stacklevel=3,
            )


_HEALTH: dict[Path, UnitHealth] = {}


def health_of(folder: Path, unit: Any) -> UnitHealth:
    """The health of the unit in a folder; anew where its text, and so its module, is another."""
    key = folder / unit.__module__
    return _HEALTH.setdefault(key, UnitHealth(folder))


def forget_health() -> None:
    """What is compiled from here on knows nothing of calls before."""
    _HEALTH.clear()


def unless_failing(
    compiled: Callable[..., Any],
    eager: EagerGraph,
    health: UnitHealth,
    *,
    written: Sequence[int],
    drawn_on: tuple[torch.device, ...],
    strict: bool,
) -> Callable[..., Any]:
    """Runs in eager what the unit fails to do, from then on always.

    Args:
        compiled: The unit.
        eager: Right for all calls.
        health: The unit's.
        written: Which inputs it writes into.
        drawn_on: Whose random generators it uses.
        strict: Raise instead.
    """
    is_tried = False

    def run(*inputs: Any) -> Any:
        nonlocal is_tried
        if health.failure is not None:
            return eager(health.failure, inputs)
        if health.second.is_expected:
            return health.second.watched(eager(REASON, inputs))
        before = None if is_tried else _Before.of(inputs, written, drawn_on)
        try:
            results = compiled(*inputs)
        except PASSED_ON:
            raise
        except Exception as error:
            if written and before is None:
                error.add_note(_HALF_DONE)
                health.fail(error)
                raise
            failure = error
        else:
            is_tried = True
            return results
        try:
            if before is not None:
                before.restore()
            results = eager(
                f"its unit raised {health.describe(failure)}", inputs
            )  # or raises what eager raises
            if strict:
                raise UnitError(
                    f"A generated unit raised {health.describe(failure)}, which eager does not."
                ) from failure
            health.fail(failure)
        finally:
            del failure  # its traceback holds this frame
        return results

    return run


class _Before:
    """What a call is about to change.

    Args:
        tensors: (an input, its value).
        generators: As random_state() gives it.
    """

    def __init__(self, tensors: list[tuple[torch.Tensor, torch.Tensor]], generators: Any) -> None:
        self._tensors = tensors
        self._generators = generators

    @staticmethod
    def of(
        inputs: Sequence[Any], written: Sequence[int], drawn_on: tuple[torch.device, ...]
    ) -> _Before | None:
        """None where it is too much to keep."""
        tensors = [inputs[place] for place in written]
        if sum(tensor.nbytes for tensor in tensors) > _MOST_KEPT:
            return None
        with torch.no_grad():
            return _Before([(tensor, tensor.clone()) for tensor in tensors], random_state(drawn_on))

    def restore(self) -> None:
        """Makes everything as it was."""
        with torch.no_grad():
            for tensor, value in self._tensors:
                tensor.copy_(value)
        restore_random_state(self._generators)


def watch_backward(function: type[torch.autograd.Function], health: UnitHealth) -> Callable[..., Any]:
    """A unit's backward that notes where it fails; what eager raises there, too, comes with the saved tensors."""
    original: Callable[..., Any] = function.backward

    def backward(ctx: Any, *gradients: Any) -> Any:
        try:
            refuse_asked(ctx)
            return original(ctx, *gradients)
        except PASSED_ON:
            raise
        except GradientOfPartError:
            health.leave_to_eager(ASKED)
            raise
        except Exception as error:
            if torch.is_grad_enabled():
                health.second.refuse(error)
                health.failure = AGAIN if health.second.refused > 1 else health.failure
            elif not _is_about_saved_tensors(error):
                error.add_note("longhand: a generated backward pass raised this. Later calls run in eager.")
                health.fail(error)
            raise

    return backward


def _is_about_saved_tensors(error: BaseException) -> bool:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return "saved_tensors" in linecache.getline(frame.filename, frame.lineno or 0)
