"""longhand.lock: what the unit was made from and with, and the ledger of names. The only file with such facts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from longhand.capture.graph import CapturedGraph, InputKind, Literal, Provenance
from longhand.emit.module.call_checks import as_size
from longhand.emit.module.passes import Pass, kernels_of
from longhand.emit.names.buffer_names import BufferWords
from longhand.emit.names.ledger import Ledger
from longhand.emit.text.size_text import condition_text, size_text
from longhand.emit.unit.lock_file import tool_versions
from longhand.emit.unit.lock_schema import FORMAT, lock_text
from longhand.emit.unit.picture import picture_of
from longhand.emit.unit.readme import traffic
from longhand.emit.unit.source_files import in_project, source_fingerprints
from longhand.emit.unit.torch_kernels import NONE_IN_TORCH, InTorch, in_torch_for_lock
from longhand.options import Frontend


def write_lock(
    passes: list[Pass],
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


def _guards(graph: CapturedGraph, words: BufferWords) -> list[dict[str, Any]]:
    """What a call must be given, input by input; the sizes that may vary; what must hold of them."""
    names = {str(size.symbol): size.name for size in graph.symbols}

    def sizes(given: Iterable[object]) -> list[int | str]:
        found = map(as_size, given)
        return [size if isinstance(size, int) else size_text(size, names) for size in found]

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
    found: dict[str, Provenance] = {}
    for where in origins:
        if where.statement and where.file:
            found.setdefault(f"{where.qualname}    {where.statement}", where)
    files = {file: in_project(file) for file in {where.file for where in found.values()}}
    return {quote: f"{files[where.file]}:{where.line}" for quote, where in sorted(found.items())}


def _sources(origins: Iterable[Provenance], factory: str | None) -> dict[str, dict[str, str]]:
    """Fingerprints of the functions that the quoted statements stand in, and of what they rely on, by file."""
    names: dict[str, set[str]] = {}
    for where in origins:
        if where.statement and where.file and where.qualname:
            names.setdefault(where.file, set()).add(where.qualname)
    return source_fingerprints(names, factory)
