"""`generate`: a model becomes a folder of source code."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longhand.capture.bytecode.hook import is_available
from longhand.capture.frontends.first_call import without_memos
from longhand.capture.graph import CapturedGraph
from longhand.emit.unit.threeway import ConflictStyle
from longhand.errors import CaptureError, GraphBreakError, KeptTensorWarning
from longhand.factory import Call
from longhand.frontends import capture_call
from longhand.options import Frontend, parse_enum
from longhand.pipeline import compile_unit
from longhand.proof.told_compiled import as_in_eager
from longhand.proof.trial import TrialPlace
from longhand.staleness.replacing import lock_there, refuse_other_options, refuse_other_sizes
from longhand.targets import options_for, refuse_exported, tensors_of
from longhand.telling.clock import Clock
from longhand.telling.summary import Summary
from longhand.torch_versions import check_versions
from longhand.vector_math import settle_vector_math

if TYPE_CHECKING:
    from longhand.compiled.parts import Parts


def generate(
    model: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    out: str | Path,
    device: str | None = None,
    arch: str | None = None,
    mode: str = "default",
    train: bool = False,
    activation_memory_budget: float = 1.0,
    dynamic_shapes: Any = None,
    frontend: str | None = None,
    allow_breaks: bool = False,
    factory: str | None = None,
    inputs: tuple[str, ...] = (),
    dynamic: tuple[str, ...] = (),
    sample: bool = False,
    run: bool = True,
    replace: bool = False,
    conflict: str = ConflictStyle.BESIDE.value,
    listener: Callable[[str], None] | None = None,
) -> Summary | Parts:
    """Writes one call of a model as source code.

    Args:
        model: A module (in eval mode, if it behaves differently in training; with `train` in training mode) or a
            function of tensors.
        args: Example arguments: their shapes and dtypes decide, not their values.
        kwargs: Example keyword arguments.
        out: The folder to write. What you edited in it is merged: see docs/editing.md, and `Summary.merge`.
        device: ``cpu`` or ``cuda``; by default where the tensors are. CUDA code can be written without a GPU.
        arch: The CUDA architecture, ``sm_90``; by default this machine's.
        mode: ``default``, ``reduce-overhead``, ``max-autotune`` or ``max-autotune-no-cudagraphs``.
        train: Write the backward pass too, for all that requires grad.
        activation_memory_budget: With `train`: 1 keeps for the backward pass what is cheapest to keep; less computes
            more again, to keep that part of it.
        dynamic_shapes: As in torch.export: which dimensions may differ from call to call.
        frontend: What captures the call: ``export`` (torch.export) or ``bytecode`` (longhand's own); by default
            torch.export, and longhand's own where that captures no graph of it. The lock says which it was.
        allow_breaks: With the bytecode frontend: where the call is not one graph, write each of its graphs as a unit
            in a folder of its own below `out`. For that the call runs once, on copies. `longhand.compile(out=...)`
            runs them, with Python between them.
        factory: ``MODULE:FACTORY`` that makes model and arguments again, noted in the lock for `longhand verify`.
        inputs: The descriptions of inputs that go with it.
        dynamic: The ``NAME:DIM`` that `dynamic_shapes` was made from, for the lock.
        sample: Also estimate how much time was spent inside SymPy and black.
        run: Run the unit once before it is kept, on the example and against eager; in a fork of this process, unless
            there is a GPU for it. Where that would take long it is not done, and `Summary.trial` says so.
        replace: Let a unit that is there become one for another device, with or without a backward pass, or with other
            sizes that vary.
        conflict: What is put into the unit where you and the new version changed the same lines: ``new``, the new text
            as FILE.new beside yours; ``merge``, both in FILE between git's markers: it runs once they are gone.
        listener: Is told what is being done, in a few words.

    Raises:
        ReplacementError: `out` holds a unit for something else, and `replace` is not set.
        VerificationError: The unit does not compute what the model does, or crashes.
        GraphBreakError: With the bytecode frontend, where the call is not one graph; it lists every break.
        LonghandError: Its message says what happened and what to do. Nothing on disk has changed then.
    """
    check_versions()
    settle_vector_math()
    refuse_exported(model)
    style = parse_enum(ConflictStyle, conflict, "conflict")
    options = options_for(device, arch, mode, tensors_of(model, args, kwargs))
    options = dataclasses.replace(
        options,
        factory=factory,
        inputs=inputs,
        dynamic=dynamic,
        train=train,
        activation_memory_budget=activation_memory_budget,
        run=run,
    )
    lock = {} if replace else lock_there(Path(out))

    chosen = None if frontend is None else parse_enum(Frontend, frontend, "The frontend")

    def written(call: Call) -> Summary:
        def write(frontend: Frontend) -> Summary:
            own = dataclasses.replace(options, frontend=frontend)
            refuse_other_options(lock, own, Path(out))

            def capture() -> CapturedGraph:
                graph = capture_call(call.model, args, kwargs or {}, own, dynamic_shapes)
                refuse_other_sizes(lock, graph, Path(out))
                return graph

            with contextlib.ExitStack() as until:
                stage = until.enter_context(TrialPlace(call, own.target.device)) if run else None
                clock = Clock(sample=sample, listener=listener)
                return compile_unit(capture, own, Path(out), clock, stage, style)

        def first() -> Summary:
            return _by_either(write, allow_breaks=allow_breaks) if chosen is None else write(chosen)

        return as_in_eager(write, first, call, train=train)

    call = Call(model, args, dict(kwargs or {}))
    try:
        cold = None if dynamic_shapes else without_memos(model, args, call.kwargs, train=train)
        if cold is not None:
            try:
                return written(dataclasses.replace(call, model=cold))
            except (
                CaptureError
            ):  # no capture makes again what it keeps, or there is another reason, told below
                summary = written(call)
                warnings.warn(KeptTensorWarning(type(model).__name__), stacklevel=2)
                return summary
        return written(call)
    except GraphBreakError as error:
        if not allow_breaks:
            raise error.advised(
                "Pass allow_breaks=True (--allow-breaks) to write its graphs one by one."
            ) from None
    made_of = {
        "factory": factory,
        "inputs": list(inputs),
        "device": device,
        "arch": arch,
        "mode": mode,
        "train": train,
    }
    # Imported here: it brings the frame hook's capture and Dynamo, which a call of one graph does without.
    parts: Parts = importlib.import_module("longhand.compiled.parts").write_parts(
        model, args, kwargs or {}, Path(out), mode=mode, train=train, made_of=made_of if factory else None
    )
    return parts


def _by_either(write: Callable[[Frontend], Summary], *, allow_breaks: bool) -> Summary:
    """By torch.export, whose graphs are nearest to ATen; else by longhand's own capture.

    Raises:
        GraphBreakError: The call may be several graphs, and is.
        CaptureError: Neither captures the call: what torch.export met.
    """
    try:
        return write(Frontend.EXPORT)
    except CaptureError as error:
        refused = error
    if not is_available():
        raise refused
    try:
        return write(Frontend.BYTECODE)
    except CaptureError as error:
        if allow_breaks and isinstance(error, GraphBreakError):
            raise
        raise refused from None
