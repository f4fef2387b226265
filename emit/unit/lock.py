"""What a unit says of itself: longhand.lock, what it was made from and with, and for people README.md.

The lock is the only file with such facts; it has the ledger of names. README.md tells which kernel computes what,
for which module, and how many bytes it moves; of training also what the forward pass keeps.
"""

from __future__ import annotations

import dataclasses
import hashlib
import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from longhand.capture.graph import (
    BackwardKind,
    CapturedGraph,
    InputKind,
    Literal,
    Provenance,
    TrainingGraphs,
    differentiated,
)
from longhand.emit.module.call_checks import as_size, described_list, updated_arguments
from longhand.emit.module.trees import find_lists, parameters
from longhand.emit.text.expression import size_text
from longhand.emit.text.kernel_head import in_one_line
from longhand.emit.text.python_code import condition_text
from longhand.emit.text.quoting import markdown_code
from longhand.emit.unit.lock_file import FORMAT, lock_text, tool_versions
from longhand.emit.unit.picture import picture_of
from longhand.emit.unit.sources import in_project, source_fingerprints
from longhand.emit.unit.templates import render_template
from longhand.emit.unit.torch_kernels import NONE_IN_TORCH, InTorch, in_torch_for_lock
from longhand.lower.ir import Extern
from longhand.options import Frontend
from longhand.schedule.named_plan import (
    BufferNamer,
    Ledger,
    NamedPlan,
    kernels_of,
    launches,
    op_word,
    provenance_of,
)
from longhand.schedule.names.words import listed
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


def write_readme(passes: list[NamedPlan], exported: str, report: Sequence[str] = ()) -> str:
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


def _row(passes: list[NamedPlan], key: str) -> KernelRow:
    calls = [(one, launch) for one in passes for launch in launches(one.plan) if launch.kernel == key]
    users = dict.fromkeys(
        one.words.provenance(origin).qualname.removesuffix(".forward")
        for one, launch in calls
        for origin in launch.origins
        if one.words.provenance(origin).qualname
    )
    sizes = Counter(_bytes(launch.bytes_moved) for _, launch in calls)
    traffic = ", ".join(f"{n} x {size}" if n > 1 else size for size, n in sizes.items())
    names = calls[0][0].names.kernels[key]
    return KernelRow(names.kernel, in_one_line(names.title), ", ".join(users), len(calls), traffic)


def traffic(passes: list[NamedPlan], key: str) -> tuple[int, int]:
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


def _library_rows(passes: list[NamedPlan]) -> list[LibraryRow]:
    counts: Counter[tuple[str, str]] = Counter()
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
                counts[target, one.reason or ""] += 1
    return [LibraryRow(target, n, reason) for (target, reason), n in counts.items()]


_MOST_LINES = 8


def training_report(training: TrainingGraphs, forward: NamedPlan, backward: NamedPlan) -> list[str]:
    """The partition's totals, each above what it consists of."""
    totals = [line for line in training.report.splitlines() if not line.startswith(" ")]
    return [
        line
        for total in totals
        for line in (total, *_tensors(_items(total, training, forward, backward), forward.words))
    ]


def _items(total: str, training: TrainingGraphs, forward: NamedPlan, backward: NamedPlan) -> list[fx.Node]:
    nodes = forward.words.nodes
    if total.startswith("saved"):
        kept = (BackwardKind.SAVED, BackwardKind.RESULT)
        places = [entry.source for entry in training.inputs if entry.kind in kept]
        saved = [training.forward.outputs[place].value for place in places if isinstance(place, int)]
        return [
            nodes[value] for value in saved if isinstance(value, str) and value not in forward.words.inputs
        ]
    if total.startswith("computed again"):
        again = [node for node in backward.words.nodes.values() if _is_again(node, nodes.get(node.name))]
        return [nodes[node.name] for node in again]
    return []


def _is_again(node: fx.Node, source: fx.Node | None) -> bool:
    """Whether a node of the backward pass is one of the forward pass, computed once more."""
    return (
        source is not None
        and node.op == "call_function"
        and node.target is source.target
        and not provenance_of(node).differentiates
        and not op_word(_whole(node)).silent
    )


def _whole(node: fx.Node) -> fx.Node:
    """The call that a node is one result of."""
    source = node.args[0] if node.target is operator.getitem else node
    return source if isinstance(source, fx.Node) else node


def _tensors(nodes: Iterable[fx.Node], words: BufferNamer) -> list[str]:
    """A line for each kind of tensor, the largest first; one for all that are left."""
    kinds: Counter[tuple[str, str, int]] = Counter()
    for node in nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            word = next(words.variables(node.name))
            shape = ", ".join(map(str, value.shape))
            kinds[word, f"{str(value.dtype).removeprefix('torch.')} ({shape})", _bytes_of(value)] += 1
    ordered = sorted(kinds.items(), key=lambda kind: -kind[0][2] * kind[1])
    lines = [
        f"    {word:<32} {f'{n} x ' if n > 1 else '':>6}{size:>14,}  {what}"
        for (word, what, size), n in ordered[:_MOST_LINES]
    ]
    rest = sum(n for _, n in ordered[_MOST_LINES:])
    if rest:
        size = sum(n * kind[2] for kind, n in ordered[_MOST_LINES:])
        lines.append(f"    {f'and {rest} smaller ones':<32} {'':>6}{size:>14,}")
    return lines


def _bytes_of(value: torch.Tensor) -> int:
    return value.numel() * value.element_size() if all(isinstance(size, int) for size in value.shape) else 0


def write_lock(
    passes: list[NamedPlan],
    files: Mapping[str, str | bytes],
    exported: str,
    in_torch: Mapping[str, InTorch] = NONE_IN_TORCH,
) -> str:
    """The lock's text.

    Args:
        passes: The forward, and in training the backward.
        files: Every other file, as written, by path.
        exported: The class or function.
        in_torch: By key, the kernels that are PyTorch calls.
    """
    plan, words = passes[0].plan, passes[0].words
    options, graph = plan.options, plan.program.graph
    origins: dict[tuple[str, str, str], Provenance] = {}
    for where in (words.provenance(node.name) for node in graph.graph.nodes):
        origins.setdefault((where.qualname, where.statement, where.file), where)
    named = {key: one.names.kernels[key] for key, (_, one) in kernels_of(passes).items()}
    lock = {
        "format": FORMAT,
        "name": exported,
        "source": graph.source,
        "factory": options.factory,
        "device": options.target.device.value,
        "arch": options.target.arch,
        "mode": options.mode.value,
        "versions": tool_versions(),
        "inputs": list(options.inputs),
        "dynamic": list(options.dynamic),
        "guards": _guards(graph, words),
        "hashes": {path: _hash(files[path]) for path in sorted(files)},
        "quotes": _quotes(origins.values()),
        "sources": _sources(origins.values(), options.factory),
        "kernels": {names.kernel: key for key, names in named.items()},
        "traffic": {names.kernel: list(traffic(passes, key)) for key, names in named.items()},
        "ledger": Ledger(named).to_json(),
        "picture": picture_of(passes),
    }
    if words.renamed.statements or words.renamed.locals:
        lock["renamed"] = words.renamed.to_json()
    if in_torch:
        kernels = kernels_of(passes)
        lock["in_torch"] = {
            named[key].kernel: in_torch_for_lock(*kernels[key], why) for key, why in in_torch.items()
        }
    if options.train:
        lock["train"] = True
        lock["activation_memory_budget"] = options.activation_memory_budget
    if options.frontend is not Frontend.EXPORT:
        lock["frontend"] = options.frontend.value
    if options.target.language is not None:
        lock["language"] = options.target.language
    if options.factory and not options.run:
        lock["run"] = False
    return lock_text(lock)


def _hash(content: str | bytes) -> str:
    data = content if isinstance(content, bytes) else content.encode()
    return hashlib.sha256(data).hexdigest()


def _guards(graph: CapturedGraph, words: BufferNamer) -> list[dict[str, Any]]:
    """What a call must be given, input by input; the sizes that may vary; what must hold of them."""
    names = {str(size.symbol): size.name for size in graph.symbols}

    def sizes(given: Iterable[object]) -> list[int | str]:
        converted = map(as_size, given)
        return [size if isinstance(size, int) else size_text(size, names) for size in converted]

    guards: list[dict[str, Any]] = []
    inputs = {entry.node: entry for entry in graph.inputs}
    for leaf in graph.argument_leaves:
        if isinstance(leaf, Literal):
            continue
        entry, value = inputs[leaf], words.nodes[leaf].meta.get("val")
        if entry.kind is InputKind.ARGUMENT and isinstance(value, torch.Tensor):
            guards.append(
                {
                    "name": entry.target,
                    "dtype": str(value.dtype).removeprefix("torch."),
                    "shape": sizes(value.shape),
                    "stride": sizes(value.stride()),
                }
            )
    for size in graph.symbols:
        limits = {"minimum": size.minimum, "maximum": size.maximum, "example": size.example}
        guards.append({"name": size.name, "dim": size.dim, **limits})
    for condition in graph.conditions:
        guards.append({"condition": condition_text(condition, names)})
    return guards


def _quotes(origins: Iterable[Provenance]) -> dict[str, str]:
    """Where each quoted statement stands: file, relative to the project, and line."""
    places: dict[str, Provenance] = {}
    for where in origins:
        if where.statement and where.file:
            places.setdefault(f"{where.qualname}    {where.statement}", where)
    files = {file: in_project(file) for file in {where.file for where in places.values()}}
    return {quote: f"{files[where.file]}:{where.line}" for quote, where in sorted(places.items())}


def _sources(origins: Iterable[Provenance], factory: str | None) -> dict[str, dict[str, str]]:
    """Fingerprints of the functions that the quoted statements stand in, and of what they rely on, by file."""
    names: dict[str, set[str]] = {}
    for where in origins:
        if where.statement and where.file and where.qualname:
            names.setdefault(where.file, set()).add(where.qualname)
    return source_fingerprints(names, factory)
