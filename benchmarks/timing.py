"""One row of a benchmark: the same call in eager, torch.compile and longhand, checked first, then timed in turns."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree

from longhand.factory import Call
from longhand.tune.bench import Times, time_side_by_side
from longhand.verify.comparison import Comparison, compare, tensors_by_name
from longhand.verify.original import in_float64

Function = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Row:
    """One case.

    Attributes:
        name: For the table.
        call: Makes model and arguments, on the right device.
        contenders: By name, makes the callable to time from the call. ``eager`` comes first.
        is_memory_bound: Whether time is bytes over bandwidth: inputs and outputs once each.
        goal_ms: A time known to be reachable on the machine of FACTS, or None.
    """

    name: str
    call: Callable[[], Call]
    contenders: Mapping[str, Callable[[Call], Function]]
    is_memory_bound: bool = False
    goal_ms: float | None = None


@dataclasses.dataclass(frozen=True)
class Result:
    """One row, measured.

    Attributes:
        name: The row's.
        times: By contender.
        failures: By contender: why it was not timed (raised, or computed something else), or how inexact it is.
        inexact: The contenders that were timed although they are farther off than
            `longhand.verify.comparison` allows: those that longhand is measured against. longhand itself is not timed
            then.
        bytes_moved: Inputs and outputs once each, where the row is bound by memory.
        goal_ms: See Row.
        peak_share: By contender: the achieved bandwidth as a share of the device's copy bandwidth.
    """

    name: str
    times: dict[str, Times]
    failures: dict[str, str]
    inexact: tuple[str, ...]
    bytes_moved: int | None
    goal_ms: float | None
    peak_share: dict[str, float]


def measure(row: Row, *, device: str, n_turns: int, copy_bandwidth: float) -> Result:
    """Checks every contender against float64, then times those that passed.

    Args:
        row: What to run.
        device: ``cpu`` or ``cuda``.
        n_turns: Interleaved turns.
        copy_bandwidth: Bytes per second (read + written) that a plain copy reaches.
    """
    torch.manual_seed(0)
    call = row.call()
    ready: dict[str, Callable[[], Any]] = {}
    failures: dict[str, str] = {}
    inexact: list[str] = []
    ours = list(row.contenders)[-1]
    with torch.no_grad():
        eager = call.model(*call.args, **call.kwargs)
        exact = _exact(call)
        for name, make in row.contenders.items():
            try:
                run = _on(make(call), call)
                wrong = _compared(run(), eager, exact)
                if wrong:
                    failures[name] = wrong[0].note or (
                        f"{wrong[0].name}: error {wrong[0].error:.2e}, allowed {wrong[0].bound:.2e}"
                    )
                if not wrong or (name != ours and all(math.isfinite(c.error) and not c.note for c in wrong)):
                    ready[name] = run
                    inexact += [name] * bool(wrong)
            except Exception as error:
                failures[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        bytes_moved = _n_bytes((call.args, call.kwargs, eager)) if row.is_memory_bound else None
        del eager, exact
        times = time_side_by_side(ready, device=device, n_turns=n_turns)
    shares = {}
    if bytes_moved:
        shares = {
            name: bytes_moved / (measured.median / 1e3) / copy_bandwidth for name, measured in times.items()
        }
    return Result(row.name, times, failures, tuple(inexact), bytes_moved, row.goal_ms, shares)


def copy_bandwidth(device: str, n_bytes: int) -> float:
    """Bytes per second, read plus written, of copying a tensor of that size into memory that is there."""
    source = torch.ones(n_bytes // 4, device=device)
    target = torch.empty_like(source)
    times = time_side_by_side({"copy": lambda: target.copy_(source)}, device=device, n_turns=7)
    return 2 * n_bytes / (times["copy"].median / 1e3)


def _n_bytes(value: Any) -> int:
    leaves = pytree.tree_leaves(value)
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves if isinstance(leaf, torch.Tensor))


def _on(function: Function, call: Call) -> Callable[[], Any]:
    return lambda: function(*call.args, **call.kwargs)


def _exact(call: Call) -> Any:
    wide = in_float64(call)
    return wide.model(*wide.args, **wide.kwargs)


def _compared(ours: Any, eager: Any, exact: Any) -> list[Comparison]:
    """What is wrong with a result: the tensors that are farther off than allowed."""
    actual, expected, reference = (tensors_by_name("result", _plain(value)) for value in (ours, eager, exact))
    if len(actual) != len(expected):
        note = f"returned {len(actual)} tensors, expected {len(expected)}"
        return [Comparison("result", math.inf, 0.0, 0.0, note)]
    compared = [
        compare(name, our, their, best)
        for (name, our), (_, their), (_, best) in zip(actual, expected, reference, strict=True)
    ]
    return [comparison for comparison in compared if not comparison.is_right]


def _plain(value: Any) -> Any:
    """Hugging Face's output classes as the tuple of what they hold."""
    return value.to_tuple() if hasattr(value, "to_tuple") else value
