"""Which capture makes the graph of a unit that is written from a call: torch.export's or longhand's own."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from longhand.capture import torch_transforms
from longhand.capture.frontends.call import told_apart
from longhand.capture.frontends.export import capture_export
from longhand.capture.frontends.fixed_sizes import refuse_fixed_sizes
from longhand.capture.graph import CapturedGraph
from longhand.errors import CaptureError, OptionError
from longhand.options import Frontend, Options
from longhand.targets import tensors_of


def capture_call(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: Options,
    dynamic_shapes: Any = None,
) -> CapturedGraph:
    """One call as a graph.

    Raises:
        OptionError: The frontend captures no call on its own.
        CaptureError: The call is no sound graph, or a size that was to vary is fixed in it; with the
            bytecode frontend GraphBreakError lists every break.
    """
    capture = _capture_of(options.frontend)
    if any(isinstance(leaf, torch.Tensor) and leaf.is_neg() for leaf in tensors_of(model, args, kwargs)):
        raise CaptureError(
            "The memory of a tensor that is given holds its elements with the opposite sign (z.conj().imag).",
            hint="Pass x.resolve_neg().",
        )
    if options.train and isinstance(model, nn.Module):
        _refuse_hooks(model)
    args, keywords = told_apart(model, args, kwargs)
    with torch_transforms.keeping_transforms():
        graph = capture(
            model, args, keywords, target=options.target, dynamic_shapes=dynamic_shapes, train=options.train
        )
    refuse_fixed_sizes(graph, model, args, keywords, dynamic_shapes)
    return graph


def _refuse_hooks(model: nn.Module) -> None:
    """A unit's parameters are its own: what the model's do with a gradient, they would not."""
    for name, weight in model.named_parameters():
        if weight._backward_hooks or weight._post_accumulate_grad_hooks:
            raise CaptureError(
                f"A hook is registered on the gradient of {name}: the unit has parameters of its own, without it.",
                hint="Remove the hook to generate, and register it on the unit's parameter.",
            )


def _capture_of(frontend: Frontend) -> Callable[..., CapturedGraph]:
    match frontend:
        case Frontend.EXPORT:
            return capture_export
        case Frontend.BYTECODE | Frontend.UNCOMPILED:
            # Imported here: a hundred modules that know CPython's instructions, which torch.export does without.
            own: Callable[..., CapturedGraph] = importlib.import_module(
                "longhand.capture.frontends.bytecode"
            ).capture_bytecode
            return functools.partial(own, tells_compiled=frontend is Frontend.BYTECODE)
    raise OptionError(
        f"frontend={frontend.value!r} hands over graphs while code runs; it writes no unit from a call.",
        hint="Use export, bytecode or uncompiled here, or longhand.compile(frontend='dynamo', out=FOLDER).",
    )
