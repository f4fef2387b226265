"""The folder in which `longhand.compile` keeps its units: the user's own, keyed by content, bounded, safe to share.

A unit is made in a folder of its own beside the others and renamed into place: what has a unit's name is complete.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.utils._pytree as pytree
import triton

from longhand.cache.owned_folder import owned_cache
from longhand.capture.graph import CapturedGraph
from longhand.emit.unit.lock_file import read_regular
from longhand.errors import UnitError
from longhand.options import Options

_DEFAULT_LIMIT_MB = 1024
_WHOLE = ".whole"  # the digest of a unit's files
_RECENT = 3600.0  # seconds: a unit used within the hour stays, whatever the bound


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
        _evict(folder)
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
                if path.suffix in (".py", ".jinja", ".h"):
                    digest.update(f"{room} {path.relative_to(place)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _evict(folder: Path) -> None:
    """Removes the units unused for longest until the folder is within LONGHAND_CACHE_LIMIT_MB."""
    limit = int(os.environ.get("LONGHAND_CACHE_LIMIT_MB", _DEFAULT_LIMIT_MB)) * 2**20
    with open(folder / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return  # another process is at it
        units = sorted((_used(path), path) for path in folder.iterdir() if path.is_dir())
        sizes = {path: _size_of(path) for _, path in units}
        total = sum(sizes.values())
        for used, path in units:
            if total <= limit:
                return
            if time.time() - used > _RECENT:
                shutil.rmtree(path, ignore_errors=True)
                total -= sizes[path]


def _used(folder: Path) -> float:
    """When; now, if another process has just removed it."""
    try:
        return folder.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def _size_of(folder: Path) -> int:
    """Of the files that are there: another process may be making or removing some of them."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                size += os.stat(os.path.join(place, name)).st_size
    return size
