"""`longhand.compile`: a function or module that runs as units, in the cache folder or in one of the user's."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree

from longhand.api import generate
from longhand.capture.bytecode.entry.entries import forget_all
from longhand.capture.torch_dynamo import graph_break, mark_dynamic
from longhand.compiled.backend import is_strict, longhand_backend, number_from_one
from longhand.compiled.from_bytecode import captured, default_frontend
from longhand.compiled.module_state import ModuleState, Standing
from longhand.compiled.unit_failures import forget_health
from longhand.emit.unit.threeway import Outcome
from longhand.errors import EagerWarning, GraphBreakError, OptionError, ReplacementError, UnitError
from longhand.loading import bound, load
from longhand.options import Frontend, Mode, parse_enum
from longhand.targets import refuse_exported, tensors_of
from longhand.telling.logs import Subject, logger, set_logs_from_environment
from longhand.telling.summary import Summary
from longhand.telling.tally import forget_calls
from longhand.torch_versions import check_versions
from longhand.vector_math import settle_vector_math

__all__ = ["compile", "disable", "graph_break", "mark_dynamic", "reset"]

disable = torch.compiler.disable


def reset() -> None:
    """Forgets everything that was compiled in this process."""
    torch.compiler.reset()
    forget_all()
    forget_calls()
    forget_health()


def compile(
    fn_or_module: Callable[..., Any] | None = None,
    *,
    mode: str = "default",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    out: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    frontend: str | None = None,
) -> Any:
    """Compiles on the first call; usable as a decorator, with and without arguments.

    Args:
        fn_or_module: What to compile.
        mode: ``default``, ``reduce-overhead``, ``max-autotune`` or ``max-autotune-no-cudagraphs``.
        fullgraph: Raise where the code cannot be captured as one graph.
        dynamic: As in torch.compile: None makes a size symbolic when a second value of it comes.
        out: Write the unit there (one graph, as `longhand.generate` would) instead of into the cache folder. Calls
            that it was not written for run in eager. What you edit there is merged, and is what runs. With the
            bytecode frontend and without `fullgraph`, code that is not one graph becomes several units below it.
        options: ``{"strict": True}`` raises where a graph would run in eager.
        frontend: What captures the code: ``bytecode`` (longhand's own; the default, where its frame hook is built),
            ``dynamo`` (torch's; the default elsewhere, and for the ``step`` of a torch.optim optimizer), ``export``
            (one graph, by torch.export) or ``uncompiled`` (one graph; as bytecode, but torch.compiler.is_compiling()
            is False, as in eager). With `out`, ``dynamo`` stands for export.

    Raises:
        OptionError: An option is unknown or contradicts another.
    """
    check_versions()
    settle_vector_math()
    refuse_exported(fn_or_module)
    parse_enum(Mode, mode, "The mode")
    captured_by = (
        default_frontend(fn_or_module) if frontend is None else parse_enum(Frontend, frontend, "The frontend")
    )
    if fn_or_module is None:
        return functools.partial(
            compile,
            mode=mode,
            fullgraph=fullgraph,
            dynamic=dynamic,
            out=out,
            options=options,
            frontend=frontend,
        )
    set_logs_from_environment()
    if out is None and captured_by in (Frontend.EXPORT, Frontend.UNCOMPILED):
        raise OptionError(f"frontend={captured_by.value!r} writes one graph.", hint="Say where with out=.")
    if out is None and captured_by is Frontend.BYTECODE:
        return captured(fn_or_module, mode=mode, fullgraph=fullgraph, dynamic=dynamic, options=options)
    if out is None:
        backend = functools.partial(longhand_backend, mode=mode, options=options)
        return torch.compile(fn_or_module, backend=backend, fullgraph=fullgraph, dynamic=dynamic)
    if dynamic:
        raise OptionError(
            "dynamic= and out= do not go together.", hint="Use longhand.generate(dynamic_shapes=...)."
        )
    written_by = Frontend.EXPORT if captured_by is Frontend.DYNAMO else captured_by
    return Owned(fn_or_module, Path(out), mode, written_by, fullgraph=fullgraph, options=options)


class Owned:
    """A module or function that runs as the unit in a folder of the user's, written at the first call.

    Everything but the call is the original's: attributes, parameters, state_dict.

    Args:
        original: A module or a function.
        out: The folder.
        mode: As in torch.compile.
        frontend: What captures the call.
        fullgraph: Code that is not one graph is an error.
        options: As in longhand.compile.
    """

    def __init__(
        self,
        original: Callable[..., Any],
        out: Path,
        mode: str,
        frontend: Frontend = Frontend.EXPORT,
        *,
        fullgraph: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._original = original
        self._out = out
        self._mode = mode
        self._frontend = frontend
        self._fullgraph = fullgraph
        self._options = dict(options or {})
        self._parts: Callable[..., Any] | None = None  # where the code is not one graph
        self._call_of_unit: _Described | None = None
        self._unit: Callable[..., Any] | None = None
        self._state = ModuleState.of(original)
        self._refusal: str | None = None  # why the unit must not run
        self._told: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._parts is not None:
            return self._parts(*args, **kwargs)
        needs_gradients = torch.is_grad_enabled() and any(
            isinstance(leaf, torch.Tensor) and leaf.requires_grad
            for leaf in tensors_of(self._original, args, kwargs)
        )
        if needs_gradients:
            return self._eager("gradients must flow through it", args, kwargs)
        call = self._describe(args, kwargs)
        if self._refusal is not None:
            return self._eager(self._refusal, args, kwargs)
        if self._unit is None:
            try:
                self._write(args, kwargs)
            except GraphBreakError:
                if self._fullgraph:
                    raise
                return self._in_parts()(*args, **kwargs)
            except ReplacementError as error:
                if is_strict(self._options):
                    raise
                self._refusal = str(error).removesuffix(".")
                return self._eager(self._refusal, args, kwargs)
            if self._refusal is not None:
                return self._eager(self._refusal, args, kwargs)
            self._unit = self._bind()
            self._call_of_unit = call
        standing = self._state.standing()
        if standing is Standing.CHANGED:
            return self._eager(
                f"the model was changed after {self._out} was written. Compile it anew", args, kwargs
            )
        if standing is Standing.MOVED:
            self._unit = self._bind()
        if call != self._call_of_unit:
            return self._eager(self._other_call(call), args, kwargs)
        return self._unit(*args, **kwargs)

    def _bind(self) -> Callable[..., Any]:
        """The unit on the original's weights, wherever they are now."""
        self._state = ModuleState.of(self._original)
        return bound(load(self._out, check=False), self._original)

    def _write(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Brings the folder up to date: what runs is what the model is today, with the edits that were made."""
        made = generate(
            self._original,
            args,
            kwargs,
            out=self._out,
            mode=self._mode,
            frontend=self._frontend.value,
            run=False,  # the first call is about to
        )
        assert isinstance(made, Summary)
        merge = made.merge
        if merge.has_conflicts:
            paths = ", ".join(merge.of(Outcome.CONFLICT))
            self._refusal = f"{self._out} is of an earlier version of the model: edits in {paths} conflict"
            warnings.warn(f"{self._refusal}. Calls run in eager until they are settled.", stacklevel=4)
        for file in merge.files:
            if file.problem:
                warnings.warn(f"{self._out / file.path}: {file.problem}. It runs as it is.", stacklevel=4)

    def _in_parts(self) -> Callable[..., Any]:
        """The code as several units below the folder."""
        number_from_one(self._out)
        options = {**self._options, "out": str(self._out)}
        parts: Callable[..., Any] = captured(self._original, mode=self._mode, options=options)
        self._parts = parts
        return parts

    def _eager(self, reason: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        logger(Subject.EAGER).info("a call runs in eager: %s", reason)
        if is_strict(self._options):
            raise UnitError(f"A call would run in eager: {reason}.")
        if reason not in self._told:
            self._told.add(reason)
            warnings.warn(f"A call runs in eager: {reason}.", EagerWarning, stacklevel=3)
        return self._original(*args, **kwargs)

    def _other_call(self, call: _Described) -> str:
        """Why the unit is not for a call, in words."""
        assert self._call_of_unit is not None
        names = [
            *inspect.signature(
                self._original.forward if isinstance(self._original, torch.nn.Module) else self._original
            ).parameters
        ]
        differing = [
            (place, was, now)
            for place, (was, now) in enumerate(zip(self._call_of_unit.leaves, call.leaves, strict=False))
            if was != now
        ]
        what = "another structure of arguments, other autocast or another default type"
        if differing:
            place, was, now = differing[0]
            name = names[place] if len(names) >= len(call.leaves) else f"argument {place}"
            one, other = _in_words(was), _in_words(now)
            if one == other:
                one, other = (
                    f"{one} with strides {was[2]} on {was[3]}",
                    f"{other} with strides {now[2]} on {now[3]}",
                )
            what = f"{name} {one}, not {other}"
        return (
            f"{self._out} was written for {what}. longhand.generate(dynamic_shapes=...) writes a unit whose sizes "
            "vary; without out=, each call is compiled for its own sizes"
        )

    def _describe(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Described:
        """What the unit was specialized on."""
        leaves, spec = pytree.tree_flatten((args, kwargs))
        described = [
            (
                (leaf.dtype, tuple(leaf.shape), leaf.stride(), leaf.device)
                if isinstance(leaf, torch.Tensor)
                else leaf
            )
            for leaf in leaves
        ]
        devices = {leaf.device.type for leaf in leaves if isinstance(leaf, torch.Tensor)}
        casts = [
            (device, torch.get_autocast_dtype(device))
            for device in sorted(devices)
            if torch.is_autocast_enabled(device)
        ]
        return _Described(tuple(described), (spec, casts, torch.get_default_dtype()))


@dataclasses.dataclass(frozen=True)
class _Described:
    """What a unit was specialized on.

    Attributes:
        leaves: For each leaf of the arguments its type, shape, strides and device, or the value that it is.
        around: Their structure, autocast and the default type.
    """

    leaves: tuple[Any, ...]
    around: Any


def _in_words(leaf: Any) -> str:
    if isinstance(leaf, tuple) and leaf and isinstance(leaf[0], torch.dtype):
        return f"{str(leaf[0]).removeprefix('torch.')} {tuple(leaf[1])}"
    return repr(leaf)[:40]
