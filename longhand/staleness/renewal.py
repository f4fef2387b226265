"""A unit made anew as it was made first: the options that its lock holds, and no others by accident.

What a unit is for (its device, whether it trains, which sizes may vary) changes only where somebody says so.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from longhand.api import generate
from longhand.compiled.parts import Parts, options_of_parts
from longhand.emit.unit.lock_file import read_lock
from longhand.emit.unit.threeway import ConflictStyle
from longhand.errors import OptionError, UnitError
from longhand.factory import dynamic_shapes, resolve
from longhand.options import Device, Frontend, Mode, Options, Target, parse_enum
from longhand.telling.summary import Summary
from longhand.verify.original import SEED

_ARGUMENTS = frozenset(
    ["device", "arch", "mode", "train", "memory_budget", "dynamic", "frontend", "inputs", "run"]
)


def options_of(lock: Mapping[str, Any], folder: Path, factory: str | None = None) -> Options:
    """What `generate` was asked when it wrote a unit.

    Args:
        lock: The unit's lock.
        folder: The unit, for messages.
        factory: Instead of the lock's.

    Raises:
        UnitError: Nothing says how to make the model.
        OptionError: An option of the lock is none that longhand knows.
    """
    spec = factory or lock.get("factory")
    if not spec:
        raise UnitError(
            f"{folder} was generated from a model object: nothing says how to make it again.",
            hint="Run the Python that called longhand.generate, or name it: --factory MODULE:FACTORY.",
        )
    return Options(
        Target(
            parse_enum(Device, str(lock.get("device")), "The lock's device"),
            lock.get("arch"),
            lock.get("language"),
        ),
        parse_enum(Mode, str(lock.get("mode")), "The lock's mode"),
        factory=str(spec),
        inputs=() if factory else tuple(lock.get("inputs", ())),
        dynamic=tuple(lock.get("dynamic", ())),
        train=bool(lock.get("train", False)),
        activation_memory_budget=float(lock.get("activation_memory_budget", 1.0)),
        frontend=parse_enum(Frontend, str(lock.get("frontend", "export")), "The lock's frontend"),
        run=bool(lock.get("run", True)),
    )


def command_of(options: Options, out: Path) -> str:
    """The command line that writes a unit with these options."""
    words = ["longhand", "generate", options.factory or "MODULE:FACTORY", "--out", str(out)]
    words += ["--device", options.target.name]
    words += ["--arch", options.target.arch] if options.target.arch else []
    words += ["--mode", options.mode.value] if options.mode is not Mode.DEFAULT else []
    words += [word for text in options.inputs for word in ("--input", text)]
    words += [word for text in options.dynamic for word in ("--dynamic", text)]
    words += ["--train"] if options.train else []
    if options.activation_memory_budget != 1.0:
        words += ["--memory-budget", str(options.activation_memory_budget)]
    words += ["--frontend", options.frontend.value] if options.frontend is not Frontend.EXPORT else []
    words += [] if options.run else ["--no-run"]
    return shlex.join(words)


def renew(
    folder: Path,
    changes: Mapping[str, Any] | None = None,
    *,
    replace: bool = False,
    conflict: str = ConflictStyle.BESIDE.value,
    listener: Callable[[str], None] | None = None,
) -> Summary | Parts:
    """Generates a unit again, from the options that its lock holds; what was edited in it is merged.

    Args:
        folder: The unit.
        changes: Options to change, by the parameter of `make`.
        replace: Also those that say what the unit is for.
        conflict: As `longhand.generate` has it.
        listener: Is told what is being done.

    Raises:
        UnitError: There is no unit, or nothing says how to make its model.
        ReplacementError: A change says what the unit is for, and `replace` is not set.
        LonghandError: As `longhand.generate`.
    """
    if (parts := options_of_parts(folder)) is not None:
        return _renew_parts(folder, parts, dict(changes or {}), conflict=conflict, listener=listener)
    options = options_of(_lock_of(folder), folder)
    given: dict[str, Any] = {
        "inputs": options.inputs,
        "device": options.target.name,
        "arch": options.target.arch,
        "mode": options.mode.value,
        "train": options.train,
        "memory_budget": options.activation_memory_budget,
        "dynamic": options.dynamic,
        "frontend": options.frontend.value,
        "run": options.run,
    }
    changed = dict(changes or {})
    if unknown := changed.keys() - _ARGUMENTS:
        raise OptionError(f"{sorted(unknown)[0]!r} is no option of a unit.")
    if changed.get("device") == Device.CPU.value:
        changed.setdefault("arch", None)
    assert options.factory is not None
    return make(
        options.factory, folder, **{**given, **changed}, replace=replace, conflict=conflict, listener=listener
    )


def _lock_of(folder: Path) -> Mapping[str, Any]:
    """The lock of a unit that can be renewed alone.

    Raises:
        UnitError: It is one of several that were made of one call.
    """
    lock = read_lock(folder)
    if not lock.get("factory") and options_of_parts(folder.resolve().parent) is not None:
        raise UnitError(
            f"{folder} is one of the graphs of one call, which are renewed together.",
            hint=f"longhand generate {folder.parent}",
        )
    return lock


def _renew_parts(
    folder: Path,
    parts: Mapping[str, Any],
    changes: Mapping[str, Any],
    *,
    conflict: str,
    listener: Callable[[str], None] | None,
) -> Summary | Parts:
    """The units of a call that is not one graph. They are for one device, and train or not, as they did."""
    if fixed := [name for name, value in changes.items() if name not in parts or value != parts[name]]:
        raise OptionError(
            f"{folder} holds the graphs of one call, whose {fixed[0]} stays as it is.",
            hint=f"Write them elsewhere: longhand generate {parts['factory']} --allow-breaks --out DIR.",
        )
    return make(
        allow_breaks=True,
        out=folder,
        **parts,
        frontend=Frontend.BYTECODE.value,
        conflict=conflict,
        listener=listener,
    )


def make(
    factory: str,
    out: Path,
    *,
    inputs: tuple[str, ...] = (),
    device: str | None = None,
    arch: str | None = None,
    mode: str = Mode.DEFAULT.value,
    train: bool = False,
    memory_budget: float = 1.0,
    dynamic: tuple[str, ...] = (),
    frontend: str | None = None,
    run: bool = True,
    allow_breaks: bool = False,
    replace: bool = False,
    conflict: str = ConflictStyle.BESIDE.value,
    listener: Callable[[str], None] | None = None,
) -> Summary | Parts:
    """Generates what a factory makes; see `longhand.generate`, which this calls.

    Raises:
        FactoryError: The model cannot be made.
        LonghandError: As `longhand.generate`.
    """
    torch.manual_seed(SEED)
    call = resolve(factory, inputs)
    return generate(
        call.model,
        call.args,
        call.kwargs,
        out=out,
        device=device,
        arch=arch,
        mode=mode,
        dynamic_shapes=dynamic_shapes(call, dynamic),
        train=train,
        activation_memory_budget=memory_budget,
        factory=factory,
        inputs=inputs,
        dynamic=dynamic,
        frontend=frontend,
        allow_breaks=allow_breaks,
        sample=True,
        run=run,
        replace=replace,
        conflict=conflict,
        listener=listener,
    )
