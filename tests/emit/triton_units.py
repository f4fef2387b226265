"""Writes printed Triton kernels as a unit on disk, and runs them in Triton's interpreter in a process of its own."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from longhand.emit.text.reference import Reference
from longhand.emit.triton.kernel import print_triton_kernel
from longhand.emit.unit.templates import write_runtime
from longhand.lower.ir import Load, Pointwise, Reduce, Size, Store, arguments
from longhand.schedule.names.unit_names import AxisNames, KernelNames
from longhand.schedule.plan import AxisRole, KernelPlan, Launch

REFERENCE = Reference('def reference():\n    """Not part of these tests."""', (), {}, (), False, False)


def runtime_text() -> str:
    """A unit's runtime.py with all that Triton kernels may import from it."""
    return write_runtime(["ceil_div", "fast_launch", "libdevice", "next_power_of_2"])


def write_unit(folder: Path, kernels: Mapping[str, str]) -> None:
    """A package with runtime.py and one file a kernel."""
    (folder / "kernels").mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text("")
    (folder / "kernels" / "__init__.py").write_text("")
    (folder / "runtime.py").write_text(runtime_text())
    for name, text in kernels.items():
        (folder / "kernels" / f"{name}.py").write_text(text)


def plain_names(plan: KernelPlan, kernel: str) -> KernelNames:
    """Words for a plan without a model: every load, reduction and value that is used twice gets a line."""
    uses = [0] * len(plan.body)
    for value in plan.body:
        for argument in arguments(value):
            uses[argument] += 1
    values: dict[int, str] = {}
    for position, value in enumerate(plan.body):
        if isinstance(value, Load):
            values[position] = _unused(value.buffer, values)
        elif isinstance(value, Reduce):
            values[position] = _unused(value.name or f"row_{value.op.value}", values)
        elif isinstance(value, Pointwise) and uses[position] > 1:
            values[position] = _unused(value.name or f"{value.op.value}ed", values)
    axes = {}
    for role, word in ((AxisRole.ROW, "row"), (AxisRole.COL, "col")):
        side = [axis for axis in plan.axes if axis.role is role]
        for axis in side:
            index = word if len(side) == 1 else axis.name.replace("row", "line").replace("col", "lane")
            axes[axis.name] = AxisNames(index, f"n_{index}s")
    ints = {parameter.name: parameter.name for parameter in plan.ints}
    scalars = {parameter.position: parameter.name or "scalar" for parameter in plan.scalars}
    pointers = {pointer.name: pointer.name for pointer in plan.pointers}
    return KernelNames(kernel, "what the test computes.", (), pointers, axes, ints, scalars, values)


def _unused(word: str, values: Mapping[int, str]) -> str:
    number = 2
    found = word
    while found in values.values():
        found = f"{word}_{number}"
        number += 1
    return found


@dataclasses.dataclass
class Job:
    """One call of a host function: its tensors, then its numbers."""

    kernel: str
    tensors: list[torch.Tensor]
    numbers: list[Size | float]


def job_for(kernel: str, plan: KernelPlan, launch: Launch, memory: Mapping[str, torch.Tensor]) -> Job:
    """The call that a launch is."""
    tensors = [memory[buffer].clone() for buffer in launch.buffers]
    return Job(kernel, tensors, [*launch.sizes, *launch.ints, *launch.scalars])


def interpret(folder: Path, jobs: list[Job]) -> list[list[torch.Tensor] | str]:
    """Runs the jobs with TRITON_INTERPRET=1; for each its tensors afterwards, or the error as text."""
    torch.save([dataclasses.asdict(job) for job in jobs], folder / "jobs.pt")
    environment = dict(os.environ, TRITON_INTERPRET="1", OMP_NUM_THREADS="1")
    worker = Path(__file__).with_name("triton_worker.py")
    subprocess.run([sys.executable, str(worker), str(folder)], check=True, env=environment, timeout=600)
    results: list[Any] = torch.load(folder / "results.pt")
    return results


def written(plan: KernelPlan, launch: Launch) -> list[str]:
    """The buffers that a launch writes."""
    stored = {value.buffer for value in plan.body if isinstance(value, Store)}
    visible = [pointer for pointer in plan.pointers if not pointer.scratch]
    return [buffer for buffer, pointer in zip(launch.buffers, visible, strict=True) if pointer.name in stored]


def printed(kernel: str, plan: KernelPlan, names: KernelNames | None = None) -> str:
    """A kernel file."""
    return print_triton_kernel(plan, names or plain_names(plan, kernel), REFERENCE)
