"""The frontend for `longhand generate`: torch.export traces a module or function, `finalize` makes a CapturedGraph."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx, nn
from torch.export.graph_signature import ConstantArgument, InputSpec
from torch.export.graph_signature import InputKind as ExportKind

from longhand.capture import torch_private, torch_transforms
from longhand.capture.frontends.call import (
    free_path,
    is_nonnegative,
    ordered_keywords,
    refuse_autocast,
    size_names,
    source_name,
    state_of,
    title,
)
from longhand.capture.frontends.dynamo_run import checkpoint_marks
from longhand.capture.frontends.failures import COMPUTED_EACH_TIME, capture_error
from longhand.capture.frontends.finalize import Traced, finalize
from longhand.capture.frontends.first_call import put_back
from longhand.capture.frontends.torch_checkpoints import marking_checkpoints
from longhand.capture.frontends.written_out import WrittenOut
from longhand.capture.graph import CapturedGraph, GraphInput, InputKind, Literal
from longhand.capture.modes import mode_of
from longhand.capture.provenance import assigned_name
from longhand.capture.storages import overlapping, tied_paths
from longhand.errors import CaptureError
from longhand.options import Target

_KINDS = {
    ExportKind.PARAMETER: InputKind.PARAMETER,
    ExportKind.BUFFER: InputKind.BUFFER,
    ExportKind.CONSTANT_TENSOR: InputKind.CONSTANT,
}


def _as_module(function: Callable[..., Any]) -> nn.Module:
    """A module whose forward is the function."""
    module = nn.Module()
    module.forward = function
    return module


def capture_export(
    model: nn.Module | Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    target: Target,
    dynamic_shapes: Any = None,
    name: str | None = None,
    train: bool = False,
) -> CapturedGraph:
    """Captures one call, ``model(*args, **kwargs)``.

    Args:
        model: A module (in the mode that it is in: call ``eval()`` first) or a plain function of tensors.
        args: Example arguments; tensors of the dtypes, sizes and devices that the result is to be for. Containers
            are fine; what is no tensor is specialized on.
        target: What the graph is for. A model on the CPU may be captured for CUDA.
        dynamic_shapes: As in torch.export.export: which sizes may differ from call to call.
        name: Instead of the class's or function's own.
        train: The call is to be differentiated: what stops gradients stays in the graph.

    Raises:
        CaptureError: The call cannot be captured as one sound graph.
    """
    is_module = isinstance(model, nn.Module)
    module = model if isinstance(model, nn.Module) else _as_module(model)
    entry = model.forward if isinstance(model, nn.Module) else model
    refuse_autocast()
    kwargs = ordered_keywords(entry, args, kwargs or {}, title(model, name))
    kept: list[str] = []
    try:
        custom = torch_private.refusing_autograd(_refuse_custom) if train else contextlib.nullcontext()
        with (
            torch.set_grad_enabled(train),
            torch_private.stacks_since(__file__),
            _quiet(_mirrors(module)),
            custom,
            marking_checkpoints(checkpoint_marks(), _refuse_nested) if train else contextlib.nullcontext(),
            WrittenOut(),
            put_back(module) as kept,
        ):
            program = torch.export.export(
                module, tuple(args), kwargs, dynamic_shapes=dynamic_shapes, strict=False
            )
            if any(map(torch_transforms.opens_transform, program.graph.nodes)):
                program = program.run_decompositions({})  # what a transform of torch.func makes of a call
    except Exception as error:
        raise capture_error(error, title(model, name)) from None
    if kept:
        raise CaptureError(
            f"{title(model, name)} keeps {', '.join(one.lstrip('.') for one in kept)} for later calls, which a unit "
            "would not do.",
            hint=COMPUTED_EACH_TIME,
        )
    traced = _traced(program, model, module, entry, (tuple(args), kwargs), dynamic_shapes, name, is_module)
    return finalize(dataclasses.replace(traced, train=train, may_depend_on_data=not train), target)


def _refuse_custom(what: str) -> None:
    raise CaptureError(
        f"The call uses {what}, whose gradients cannot be derived ahead of time.",
        hint="Generate with --frontend bytecode, which makes a graph of its backward, or without --train.",
    )


def _refuse_nested() -> None:
    raise CaptureError(
        "The call uses torch.utils.checkpoint inside a part that is checkpointed itself, which torch.export traces "
        "without its gradients.",
        hint="Generate with --frontend bytecode, which traces both, or without one of them.",
    )


def _traced(
    program: torch.export.ExportedProgram,
    model: Any,
    module: nn.Module,
    entry: Callable[..., Any],
    call: tuple[tuple[Any, ...], dict[str, Any]],
    dynamic_shapes: Any,
    name: str | None,
    is_module: bool,
) -> Traced:
    signature = program.graph_signature
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    words = _constant_words(placeholders, signature.input_specs, module)
    inputs = [
        _graph_input(node, spec, words)
        for node, spec in zip(placeholders, signature.input_specs, strict=True)
    ]
    user = [spec.arg for spec in signature.input_specs if spec.kind is ExportKind.USER_INPUT]
    leaves: list[str | Literal] = [
        Literal(argument.value) if isinstance(argument, ConstantArgument) else argument.name
        for argument in user
    ]
    parameters = [p.name for p in inspect.signature(entry).parameters.values()]
    by_path = {entry_.target: entry_.node for entry_ in inputs if entry_ is not None}
    tensors = {by_path[path]: value for path, value in state_of(module) if path in by_path}
    values = pytree.tree_leaves(call)
    tensors |= {leaf: value for leaf, value in zip(leaves, values, strict=True) if isinstance(leaf, str)}
    inputs = [
        entry_ and dataclasses.replace(entry_, is_nonnegative=_is_nonnegative(entry_, tensors))
        for entry_ in inputs
    ]
    constants = {
        words.get(key, key): value
        for key, value in program.constants.items()
        if isinstance(value, torch.Tensor)
    }
    saved = module.state_dict().keys()
    constants |= {path: value for path, value in state_of(module) if path not in saved}
    return Traced(
        module=program.graph_module,
        inputs=tuple(inputs),
        leaves=tuple(program.graph.output_node().args[0]),
        name=name or title(model, None),
        source=source_name(model),
        is_module=is_module,
        signature=tuple(parameters),
        in_spec=program.call_spec.in_spec,
        out_spec=program.call_spec.out_spec,
        argument_leaves=tuple(leaves),
        constants=constants,
        tied=tied_paths(module),
        shared_storage=overlapping(
            {node: value for node, value in tensors.items() if isinstance(value, torch.Tensor)}
        ),
        grad_inputs=tuple(n for n, v in tensors.items() if isinstance(v, torch.Tensor) and v.requires_grad),
        size_names=size_names(entry, call, leaves, dynamic_shapes),
        mode=mode_of(model),
    )


def _is_nonnegative(entry: GraphInput, tensors: Mapping[str, Any]) -> bool:
    return entry.kind is InputKind.ARGUMENT and is_nonnegative(tensors[entry.node])


def _graph_input(node: fx.Node, spec: InputSpec, words: dict[str, str]) -> GraphInput | None:
    if spec.kind is ExportKind.USER_INPUT:
        if isinstance(spec.arg, ConstantArgument):
            return None
        kind = InputKind.ARGUMENT if isinstance(node.meta["val"], torch.Tensor) else InputKind.SIZE
        return GraphInput(node.name, kind, node.name)
    if spec.kind not in _KINDS:
        raise CaptureError(
            f"The model holds `{spec.target}`, which is no tensor.",
            hint="Only parameters, buffers and tensors work.",
        )
    target = words.get(str(spec.target), str(spec.target))
    return GraphInput(node.name, _KINDS[spec.kind], target, persistent=spec.persistent is not False)


def _constant_words(placeholders: list[fx.Node], specs: list[InputSpec], module: nn.Module) -> dict[str, str]:
    """Better names for constants that torch numbered: the local that the user's statement assigns them to."""
    words: dict[str, str] = {}
    taken = {str(spec.target) for spec in specs} | {path for path, _ in module.named_modules()}
    for node, spec in zip(placeholders, specs, strict=True):
        owner, dot, name = str(spec.target).rpartition(".")
        if spec.kind is not ExportKind.CONSTANT_TENSOR or not name.startswith("lifted_tensor_"):
            continue
        local = next(filter(None, (assigned_name(user) for user in node.users)), "constant")
        word = free_path(f"{owner}{dot}{local}", taken)
        taken.add(word)
        words[str(spec.target)] = word
    return words


def _mirrors(module: nn.Module) -> str:
    """Attributes, as a regular expression, in which torch's recurrent layers list their own parameters.

    Setting a parameter sets its place in the list, and torch.export sets all of them for the time of the trace.
    """
    layers = [path for path, layer in module.named_modules() if isinstance(layer, nn.RNNBase)]
    lists = [re.escape(f"self.{path}._flat_weights" if path else "self._flat_weights") for path in layers]
    return rf"(?:{'|'.join(lists)})\[\d+\]" if lists else r"(?!)"


@contextlib.contextmanager
def _quiet(mirrors: str) -> Iterator[None]:
    """Without what torch.export warns and logs about itself; what would make the graph wrong is an error.

    Args:
        mirrors: Attributes that may change meanwhile, as a regular expression.
    """
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    said = io.StringIO()  # torch prints half a graph when it fails; what forward itself prints is passed on
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(said):
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", message=".*assigned during export.*")
            only = rf"The tensor attributes? {mirrors}(?:, {mirrors})* (?:was|were) assigned during export"
            warnings.filterwarnings("ignore", message=only)
            yield
        sys.stderr.write(said.getvalue())
    finally:
        logging.disable(before)
