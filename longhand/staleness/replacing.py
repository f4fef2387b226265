"""What an existing unit is for stays, unless its owner says `replace`: its device, its training, its variable sizes."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longhand.capture.frontends.fixed_sizes import varies
from longhand.capture.graph import CapturedGraph, InputKind
from longhand.emit.unit.lock_file import LOCK, lock_versions, read_regular
from longhand.errors import ReplacementError, UnitError
from longhand.options import Options

_HINT = (
    "`longhand generate {folder}` renews it as it is; --replace (replace=True) makes it what you ask for. "
    "Nothing was changed on disk."
)


def lock_there(folder: Path) -> dict[str, Any]:
    """The lock of the unit in a folder; empty where there is none that can be read."""
    with contextlib.suppress(OSError, UnitError):
        return next(iter(lock_versions(read_regular(folder / LOCK))), {})
    return {}


def refuse_other_options(lock: Mapping[str, Any], options: Options, folder: Path) -> None:
    """Before anything is captured.

    Raises:
        ReplacementError: The unit is for another device, or trains where the new one does not, or the reverse.
    """
    if not lock:
        return
    was = [
        _device(lock.get("language") or lock.get("device"), lock.get("arch")),
        _training(bool(lock.get("train", False))),
    ]
    now = [_device(options.target.name, options.target.arch), _training(options.train)]
    if was[0] == now[0]:
        was, now = was[1:], now[1:]
    if was[-1] == now[-1]:
        was, now = was[:-1], now[:-1]
    if was:
        raise ReplacementError(
            f"{folder} is a unit {' and '.join(was)}, and would become one {' and '.join(now)}.",
            hint=_HINT.format(folder=folder),
        )


def refuse_other_sizes(lock: Mapping[str, Any], graph: CapturedGraph, folder: Path) -> None:
    """Once it is known which sizes may vary.

    Raises:
        ReplacementError: A size of an argument that may vary is fixed in the new unit, or the reverse.
    """
    was, now = _sizes_of_lock(lock), _sizes_of(graph)
    changes = []
    for name in [name for name in was if name in now]:
        for dim, (varied, will_vary) in enumerate(zip(was[name], now[name], strict=False)):
            if varied != will_vary:
                what = "may vary and would be fixed" if varied else "is fixed and would vary"
                changes.append(f"the size of {name} in dimension {dim} {what}")
    if changes:
        raise ReplacementError(f"In {folder}, {'; '.join(changes[:3])}.", hint=_HINT.format(folder=folder))


def _device(device: object, arch: object) -> str:
    return f"for {device}" + (f" ({arch})" if arch else "")


def _training(trains: bool) -> str:
    return "with a backward pass" if trains else "without a backward pass"


def _sizes_of_lock(lock: Mapping[str, Any]) -> dict[str, list[bool]]:
    """For each argument, whether each of its sizes may vary."""
    return {
        str(guard.get("name")): [not isinstance(size, int) for size in guard["shape"]]
        for guard in lock.get("guards", ())
        if isinstance(guard.get("shape"), list)
    }


def _sizes_of(graph: CapturedGraph) -> dict[str, list[bool]]:
    nodes = {node.name: node for node in graph.graph.nodes}
    tensors = {
        entry.target: nodes[entry.node].meta.get("val")
        for entry in graph.inputs
        if entry.kind is InputKind.ARGUMENT
    }
    return {
        name: [varies(size) for size in value.shape] for name, value in tensors.items() if value is not None
    }
