"""`generate`: a model becomes a folder of source code."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from longhand.capture.export_door import capture_export
from longhand.clock import Clock
from longhand.pipeline import compile_unit
from longhand.summary import Summary
from longhand.targets import options_for, tensors_of


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
    factory: str | None = None,
    inputs: tuple[str, ...] = (),
    dynamic: tuple[str, ...] = (),
    sample: bool = False,
) -> Summary:
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
        factory: ``MODULE:FACTORY`` that makes model and arguments again, noted in the lock for `longhand verify`.
        inputs: The descriptions of inputs that go with it.
        dynamic: The ``NAME:DIM`` that `dynamic_shapes` was made from, for the lock.
        sample: Also estimate how much time was spent inside SymPy and black.

    Raises:
        LonghandError: Its message says what happened and what to do. Nothing on disk has changed then.
    """
    options = options_for(device, arch, mode, tensors_of(model, args, kwargs))
    options = dataclasses.replace(
        options,
        factory=factory,
        inputs=inputs,
        dynamic=dynamic,
        train=train,
        activation_memory_budget=activation_memory_budget,
    )
    return compile_unit(
        lambda: capture_export(
            model, args, dict(kwargs or {}), target=options.target, dynamic_shapes=dynamic_shapes, train=train
        ),
        options,
        Path(out),
        Clock(sample=sample),
    )
