"""The unit's README.md: which kernel computes what, for which module, and how many bytes it moves."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

import torch

from longhand.capture.graph import InputKind, differentiated
from longhand.emit.module.model_head import described_list, updated_arguments
from longhand.emit.module.passes import Pass, kernels_of
from longhand.emit.module.templates import render_template
from longhand.emit.module.tensor_lists import find_lists
from longhand.emit.module.trees import parameters
from longhand.emit.names.naming import launches
from longhand.emit.names.words import listed
from longhand.emit.text.quoting import markdown_code
from longhand.emit.text.size_text import condition_text
from longhand.lower.ir import Extern
from longhand.schedule.plan import PlanStep, Repeat, facts_of


@dataclasses.dataclass(frozen=True)
class KernelRow:
    """One line of the map."""

    name: str
    title: str
    used_by: str
    n_calls: int
    traffic: str


@dataclasses.dataclass(frozen=True)
class LibraryRow:
    """One library operation; `reason` says why it is no kernel, where that is not that a library does it best."""

    target: str
    n_calls: int
    reason: str


def write_readme(passes: list[Pass], exported: str, report: Sequence[str] = ()) -> str:
    """The text of README.md.

    Args:
        passes: The forward, and in training the backward.
        exported: The class or function.
        report: In training: what is saved for the backward and what is computed again, in lines.
    """
    plan, words = passes[0].plan, passes[0].words
    graph = plan.program.graph
    rows = [_row(passes, key) for key in kernels_of(passes)]
    target = plan.options.target
    guards = []
    lists = find_lists(plan, parameters(graph), words.nodes)
    first_of = {one.nodes[0]: one for one in lists}
    inside = {node for one in lists for node in one.nodes}
    for entry in graph.inputs:
        value = words.nodes[entry.node].meta.get("val")
        if entry.node in first_of:
            guards.append(f"`{first_of[entry.node].name}`: {described_list(first_of[entry.node])}")
        elif entry.node in inside:
            continue
        elif entry.kind is InputKind.ARGUMENT and isinstance(value, torch.Tensor):
            shape = ", ".join(map(str, value.shape))
            guards.append(
                f"`{markdown_code(entry.target)}`: {str(value.dtype).removeprefix('torch.')}, shape ({shape})"
            )
    for size in graph.symbols:
        most = f" and at most {size.maximum}" if size.maximum is not None else ""
        guards.append(f"size `{size.name}`: at least {size.minimum}{most}")
    named = {str(size.symbol): size.name for size in graph.symbols}
    guards += [f"sizes: {condition_text(condition, named)}" for condition in graph.conditions]
    return render_template(
        "README.md.jinja",
        name=exported,
        is_module=graph.is_module,
        source=graph.source,
        updated=listed(f"`{name}`" for name in updated_arguments(plan)),
        target=target.name + (f" ({target.arch})" if target.arch else ""),
        extension=facts_of(target).extension,
        kernels=rows,
        library=_library_rows(passes),
        report=report,
        guards=guards,
        facts=graph.facts,
        has_constants=any(entry.kind is InputKind.CONSTANT for entry in graph.inputs),
    )


def _row(passes: list[Pass], key: str) -> KernelRow:
    calls = [(one, launch) for one in passes for launch in launches(one.plan) if launch.kernel == key]
    users = dict.fromkeys(
        one.words.provenance(origin).qualname.removesuffix(".forward")
        for one, launch in calls
        for origin in launch.origins
        if one.words.provenance(origin).qualname
    )
    sizes = Counter(_bytes(launch.bytes_moved) for _, launch in calls)
    traffic = ", ".join(f"{n} x {size}" if n > 1 else size for size, n in sizes.items())
    found = calls[0][0].names.kernels[key]
    return KernelRow(found.kernel, found.title, ", ".join(users), len(calls), traffic)


def traffic(passes: list[Pass], key: str) -> tuple[int, int]:
    """How often a kernel is called in one call of the unit, and the bytes it moves then, at the example's sizes."""
    examples = {key: size for one in passes for key, size in one.plan.program.graph.examples.items()}
    sizes = [launch.bytes_moved for one in passes for launch in launches(one.plan) if launch.kernel == key]
    return len(sizes), sum(size if isinstance(size, int) else int(size.subs(examples)) for size in sizes)


def _bytes(size: object) -> str:
    if not isinstance(size, int):
        return f"{size} B"
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"


def _library_rows(passes: list[Pass]) -> list[LibraryRow]:
    found: Counter[tuple[str, str]] = Counter()
    for step in (step for one in passes for step in one.plan.steps):
        inner: tuple[PlanStep, ...] = (
            tuple(one for run in step.runs for one in run) if isinstance(step, Repeat) else (step,)
        )
        for one in inner:
            if isinstance(one, Extern):
                which = differentiated(one.target)
                named = one.target if which is None else which.target
                target = f"{named.namespace}.{named.overloadpacket.__name__}"
                target += " and its gradients" if which is not None else ""
                found[target, one.reason or ""] += 1
    return [LibraryRow(target, n, reason) for (target, reason), n in found.items()]
