"""A plan as text, for people: LONGHAND_DUMP writes it between the loop program and the unit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from longhand.lower.ir import Buffer, Extern, View
from longhand.schedule.kernels.kernel_plan import KernelPlan
from longhand.schedule.plan import Allocate, Launch, Release, Repeat, Reuse, UnitPlan, UnitStep


def print_plan(plan: UnitPlan) -> str:
    """Kernels, then steps with what they compute, then the fusions that were not done and why."""
    number = {key: f"kernel {place}" for place, key in enumerate(plan.kernels)}
    lines = [f"# {plan.program.graph.source} for {plan.options.target.name}", ""]
    for key, kernel in plan.kernels.items():
        lines += [*_kernel(number[key], kernel), ""]
    lines += list(_steps(plan, plan.steps, number))
    if plan.refusals:
        lines += ["", "# Not fused:"]
        lines += [f"#   {r.producer} and {r.consumer}: {r.verdict.value}: {r.reason}" for r in plan.refusals]
    return "\n".join(lines) + "\n"


def _kernel(name: str, kernel: KernelPlan) -> Iterator[str]:
    rows = ", ".join(axis.name for axis in kernel.rows) or "-"
    cols = ", ".join(axis.name for axis in kernel.cols) or "-"
    yield f"{name}: {kernel.schedule.name}, rows {rows}, cols {cols}: {', '.join(kernel.origins)}"
    for pointer in kernel.pointers:
        dims = "?" if pointer.dims is None else ", ".join(pointer.dims)
        alias = f", may be {' or '.join(pointer.may_alias)}" if pointer.may_alias else ""
        yield f"    {pointer.access.value} {pointer.name}: {pointer.dtype} ({dims}){alias}"
    for tunable in kernel.tunables:
        yield f"    {tunable.name} = {tunable.value}"


def _steps(
    plan: UnitPlan, steps: Iterable[UnitStep], number: dict[str, str], indent: str = ""
) -> Iterator[str]:
    for step in steps:
        match step:
            case Repeat():
                yield f"{indent}repeat for {step.paths[0]} to {step.paths[-1]}:"
                yield f"{indent}    takes {_names(step.inputs[0])}, hands on {_names(step.outputs[0])}"
                yield from _steps(plan, step.runs[0], number, indent + "    ")
                for kind in list(dict.fromkeys(step.kinds))[1:]:
                    yield f"{indent}in turn with the kind of {step.of_kind(kind).paths[0]}:"
                    yield from _steps(plan, step.of_kind(kind).runs[0], number, indent + "    ")
            case Launch():
                sizes = " x ".join(map(str, step.sizes))
                more = f" and {len(step.others)} more" if step.others else ""
                given = ", ".join(step.buffers)
                yield f"{indent}{number[step.kernel]}({given}) over {sizes}{more}  # {_names(step.origins)}"
            case Extern():
                why = f"  # {step.reason}" if step.reason else ""
                yield f"{indent}{_names(step.outputs)} = {step.target}({', '.join(map(_argument, step.args))}){why}"
            case Allocate():
                yield f"{indent}allocate {step.buffer}: {_memory(plan.buffers[step.buffer])}"
            case Reuse():
                yield f"{indent}{step.buffer} takes the memory of {step.of}{', in place' * step.in_place}"
            case Release():
                yield f"{indent}release {_names(step.buffers)}"


def _memory(buffer: Buffer) -> str:
    return f"{buffer.dtype} ({', '.join(map(str, buffer.shape))})"


def _names(names: Iterable[str]) -> str:
    return ", ".join(name or "_" for name in names) or "nothing"


def _argument(argument: Any) -> str:
    if isinstance(argument, View):
        return argument.buffer
    if isinstance(argument, tuple):
        return f"[{', '.join(map(_argument, argument))}]"
    return str(argument)
