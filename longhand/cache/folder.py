"""The folder in which `longhand.compile` keeps its units: the user's own, keyed by content, bounded, safe to share.

A unit is made in a folder of its own beside the others and renamed into place: what has a unit's name is complete.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.utils._pytree as pytree
import triton

from longhand.cache.bound import keep_within_bound
from longhand.cache.owned_folder import owned_cache
from longhand.capture.graph import CapturedGraph
from longhand.emit.unit.lock_file import read_regular
from longhand.errors import UnitError
from longhand.options import Options

_WHOLE = ".whole"  # the digest of a unit's files


def cache_folder() -> Path:
    """Where compiled units are kept. Raises as `owned_cache`."""
    return owned_cache("units")


def cached_unit(graph: CapturedGraph, options: Options, make: Callable[[Path], object]) -> Path:
    """The folder of the unit for a graph; made by `make(folder)` unless it is there.

    Raises:
        LonghandError: What `make` raises, and OutputError as in `cache_folder`.
    """
    folder = cache_folder()
    word = re.sub(r"\W+", "_", graph.name).strip("_").lower()[:40] or "graph"
    unit = folder / f"{word}_{unit_key(graph, options)}"
    if not unit.is_dir() or not _is_whole(unit):
        workshop = Path(tempfile.mkdtemp(prefix=".making_", dir=folder))
        try:
            with contextlib.suppress(FileNotFoundError):
                os.rename(unit, workshop / "damaged")
            make(workshop / unit.name)
            (workshop / unit.name / _WHOLE).write_text(_digest_of(workshop / unit.name))
            try:
                os.rename(workshop / unit.name, unit)
            except OSError:
                if not unit.is_dir():  # else another process was faster: its unit is the same
                    raise
        finally:
            shutil.rmtree(workshop, ignore_errors=True)
        keep_within_bound(folder, unit)
    os.utime(unit)
    return unit


def _is_whole(unit: Path) -> bool:
    """Whether every file of a unit is as it was written: a damaged one is made again."""
    try:
        return read_regular(unit / _WHOLE).decode(errors="replace") == _digest_of(unit)
    except (OSError, UnitError):
        return False


def _digest_of(unit: Path) -> str:
    """Of its files but for what Python and this module add."""
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(unit):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = Path(folder, name)
            if path != unit / _WHOLE:
                content = hashlib.sha256(read_regular(path)).hexdigest()
                digest.update(f"{path.relative_to(unit).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def unit_key(graph: CapturedGraph, options: Options) -> str:
    """A digest of all that the text of a unit follows from: graph, options, this longhand, torch, triton, ISA."""
    digest = hashlib.sha256()
    for part in (
        _own_digest(),
        torch.__version__,
        triton.__version__,
        platform.python_version(),
        platform.machine(),
        torch.backends.cpu.get_cpu_capability(),
        options,
        graph.name,
        graph.source,
        graph.is_module,
        graph.inputs,
        graph.outputs,
        graph.n_bases,
        graph.signature,
        graph.in_spec,
        graph.argument_leaves,
        graph.out_spec,
        graph.mutations,
        graph.tied,
        graph.shared_storage,
        graph.symbols,
        graph.data_sizes,
        graph.conditions,
        graph.grad_inputs,
        graph.rewritten,
        graph.facts,
        graph.mode,
    ):
        digest.update(repr(part).encode() + b"\0")
    for node in graph.graph.nodes:
        described = pytree.tree_map(_describe, node.meta.get("val"))
        origin = node.meta.get("provenance")
        words: tuple[object, ...] = ()
        if origin:
            words = (origin.statement, origin.qualname, origin.local, origin.module, origin.checkpoint)
        line = (node.op, node.name, str(node.target), node.args, node.kwargs, described, words)
        digest.update(repr(line).encode() + b"\0")
    for target, tensor in sorted(graph.constants.items()):
        content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        digest.update(repr((target, _describe(tensor))).encode() + content.tobytes())
    return digest.hexdigest()[:24]


def _describe(value: object) -> object:
    if isinstance(value, torch.Tensor):
        strided = value.layout is torch.strided
        return (value.dtype, tuple(value.shape), value.stride() if strided else value.layout, value.device)
    return value


@functools.cache
def _own_digest() -> str:
    """Of longhand's own source and templates: another longhand writes another unit."""
    digest = hashlib.sha256()
    for room in ("capture", "lower", "schedule", "emit", "templates"):
        package = importlib.import_module(f"longhand.{room}")
        for place in package.__path__:
            for path in sorted(Path(place).rglob("*")):
                if path.suffix in (".py", ".jinja", ".c", ".h"):
                    digest.update(f"{room} {path.relative_to(place)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
