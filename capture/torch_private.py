"""Every private name of torch that capture cannot do without; a test names each and fails when it is gone."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.utils.checkpoint
from torch import fx
from torch._C._dynamo.eval_frame import set_eval_frame as set_dynamo
from torch._C._dynamo.guards import TensorGuards
from torch._dispatch.python import enable_python_dispatcher
from torch._higher_order_ops.associative_scan import associative_scan_op, generic_associative_scan
from torch._library.custom_ops import OPDEFS
from torch._subclasses import fake_tensor as _f
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    StatelessSymbolicContext,
    free_unbacked_symbols,
)
from torch.fx.proxy import TracerBase
from torch.overrides import TorchFunctionMode
from torch.utils._sympy.value_ranges import ValueRanges

from longhand.capture.autocast_state import autocast_settings

LOOKS_AT_DATA = (_f.DataDependentOutputException, _f.DynamicOutputShapeException, GuardOnDataDependentSymNode)
__all__ = [
    "LOOKS_AT_DATA",  # what torch raises where a trace would have to know values
    "FakeTensor",
    "FakeTensorMode",
    "ShapeEnv",
    "TorchFunctionMode",
    "bound_symbol",
    "dynamo_source_name",
    "fake_constant",
    "fake_mode_of",
    "fake_on_device",
    "free_unbacked_symbols",
    "is_checkpoint",
    "make_fx",
    "no_fake_mode",
    "refusing_autograd",
    "registered_by",
    "set_dynamo",  # turns torch's own Dynamo off (None) or on in this thread; gives what was
    "shape_env_of",
    "stacks_since",
    "storage_key",
    "symbol_range",
    "symbolic_expression",
    "symbolic_hint",
    "tensor_check",
    "writes",
]


def storage_key(tensor: torch.Tensor) -> int:
    """Equal for two tensors if and only if they share a storage, fake tensors included."""
    return int(tensor.untyped_storage()._cdata)


def fake_mode_of(tensor: FakeTensor) -> FakeTensorMode:
    """The mode that made a fake tensor."""
    return tensor.fake_mode


def fake_on_device(fake: FakeTensor, device: torch.device) -> torch.Tensor:
    """A fake tensor like another one on a device.

    Of plain sizes it is made as its mode would make it, in a fifth of the time: no operator is asked what it makes.
    """
    shape, stride = fake.shape, fake.stride()
    if all(type(size) is int for size in (*shape, *stride)):
        with no_fake_mode():
            plain = torch.empty_strided(shape, stride, dtype=fake.dtype, device="meta")
        if type(plain) is torch.Tensor:
            return FakeTensor(fake.fake_mode, plain, device)
    with fake.fake_mode:
        return torch.empty_strided(shape, stride, dtype=fake.dtype, device=device)


def fake_constant(tensor: torch.Tensor) -> torch.Tensor | None:
    """The real tensor behind a fake one that was made from data, else None."""
    return tensor.constant if isinstance(tensor, FakeTensor) else tensor


def no_fake_mode() -> contextlib.AbstractContextManager[Any]:
    """While inside, new tensors are real ones, whatever mode is on."""
    return unset_fake_temporarily()


def symbolic_expression(size: Any) -> Any:
    """The SymPy expression of a SymInt (or SymFloat, SymBool)."""
    return size.node.expr


def symbolic_hint(size: Any) -> int | None:
    """The value that a symbolic size had at capture, None if it depends on data."""
    hint = size.node.hint
    return None if hint is None else int(hint)


def shape_env_of(size: Any) -> ShapeEnv:
    """The environment that a SymInt's symbols live in."""
    return size.node.shape_env


def symbol_range(environment: ShapeEnv, symbol: Any) -> tuple[Any, Any]:
    """The (lower, upper) bounds known for a symbol, as SymPy numbers."""
    bounds = environment.var_to_range[symbol]
    return bounds.lower, bounds.upper


def bound_symbol(size: Any, lower: int | None, upper: int | None) -> None:
    """From here on a SymInt that is a symbol is known to be between these bounds."""
    symbol, ranges = size.node.expr, size.node.shape_env.var_to_range
    if symbol in ranges:
        known = ranges[symbol]
        ranges[symbol] = known & ValueRanges(
            known.lower if lower is None else lower, known.upper if upper is None else upper
        )


def writes(target: torch._ops.OpOverload) -> tuple[str, ...]:
    """The names of the arguments that an op writes into."""
    return tuple(
        argument.name
        for argument in target._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    )


def registered_by(target: torch._ops.OpOverload) -> str | None:
    """The module whose import makes a custom operator known; None for torch's own, and what no module made."""
    definition = OPDEFS.get(target._schema.name)
    if definition is not None:
        module = str(definition._init_fn.__module__)
        return None if module == "__main__" else module
    return target.namespace if target.namespace in sys.modules else None


def writes_into_a_list(target: torch._ops.OpOverload) -> bool:
    """Whether an op writes into a list of tensors."""
    return any(
        argument.alias_info is not None and isinstance(argument.type, torch._C.ListType)
        for argument in target._schema.arguments
    )


def dynamo_source_name(placeholder: fx.Node) -> str | None:
    """Where Dynamo took an input from: ``L['self']._modules['q']._parameters['weight']``; None for other graphs."""
    argument = placeholder.meta.get("grapharg")
    source = getattr(argument, "source", None)
    if source is None:
        return None
    name = source.name
    return str(name() if callable(name) else name)


_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_MODULES = os.path.join(_TORCH, "nn", "modules") + os.sep


@contextlib.contextmanager
def stacks_since(file: str) -> Iterator[None]:
    """While inside, traced nodes record every frame below the innermost one of `file`, less torch's own.

    torch.export would keep frames of functions called `forward` only, and so lose the user's helper functions.
    """

    def frames_below(tracer: Any, summary: traceback.StackSummary) -> traceback.StackSummary:
        frames = list(summary)
        starts = [position for position, frame in enumerate(frames) if frame.filename == file]
        below = frames[starts[-1] + 1 :] if starts else frames
        kept = [f for f in below if not f.filename.startswith(_TORCH) or f.filename.startswith(_MODULES)]
        return traceback.StackSummary.from_list(
            [f for f in kept if f.name not in ("_wrapped_call_impl", "_call_impl")]
        )

    tracer: Any = TracerBase
    original = tracer._filter_traceback_frames
    tracer._filter_traceback_frames = frames_below
    try:
        yield
    finally:
        tracer._filter_traceback_frames = original


@contextlib.contextmanager
def refusing_autograd(refuse: Callable[[str], Any]) -> Iterator[None]:
    """While inside, what gives gradients a meaning of its own raises: a trace of the forward alone would lose it.

    Args:
        refuse: Raises; is told what was called.
    """

    def raising(what: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: refuse(what)

    held: Any = vars(torch.autograd.Function)["apply"]

    def apply_or_raise(kind: type, *args: Any, **kwargs: Any) -> Any:
        # Before torch 2.13, torch.utils.checkpoint remembers its inputs by a function without gradients.
        own = kind.__module__ == "torch.utils.checkpoint" and kind.__name__ == "_NoopSaveInputs"
        return held.__get__(None, kind)(*args, **kwargs) if own else refuse("a custom autograd.Function")

    places: list[tuple[Any, str, Any]] = [
        (torch.autograd.Function, "apply", classmethod(apply_or_raise)),
        (torch.Tensor, "register_hook", raising("Tensor.register_hook")),
        (torch.Tensor, "backward", raising("Tensor.backward")),
        (torch.autograd, "grad", raising("torch.autograd.grad")),
    ]
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in places]
    for owner, name, replacement in places:
        setattr(owner, name, replacement)
    try:
        yield
    finally:
        for owner, name, original in before:
            setattr(owner, name, original)


def is_autograd_apply(function: Any) -> bool:
    """Whether this is autograd.Function.apply as its class holds it: a classmethod's function up to torch 2.14, and
    from 2.15 on a descriptor of C."""
    held = vars(torch.autograd.Function)["apply"]
    return function is getattr(held, "__func__", held)


@contextlib.contextmanager
def quiet_fakes() -> Iterator[None]:
    """While inside, an op that fails on fake tensors writes no message: the user's program may expect it to fail."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    was = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = was


def forget_fresh_sizes(environment: ShapeEnv) -> None:
    """Sizes of which only data tells, made by a call that then failed: the next trace would look for them."""
    environment.pending_fresh_unbacked_symbols.clear()


# Before torch 2.13, C++ counts elements when it takes matmul apart, and so takes symbols for the numbers behind them.
_COUNTS_IN_CPP = torch.__version__.startswith(("2.11.", "2.12."))


def symbolic_rules() -> contextlib.AbstractContextManager[None]:
    """While inside, ops that are made of others are taken apart by code that leaves symbolic sizes symbolic."""
    return enable_python_dispatcher() if _COUNTS_IN_CPP else contextlib.nullcontext()


# What a guard compares: layout, device type, conjugate and negative views, inference tensors.
dispatch_keys = torch._C._dispatch_keys
KEYS_TEXT = "dispatch_keys({})"


def tensor_check(tensors: Sequence[torch.Tensor]) -> Callable[..., bool]:
    """What tells whether as many tensors have the type, dtype, device, requires_grad, sizes, strides and dispatch keys
    of these: in one call, some 0.1 us a tensor."""
    sizes: list[Any] = [list(tensor.shape) for tensor in tensors]
    strides: list[Any] = [list(tensor.stride()) for tensor in tensors]
    guards = TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
    check: Callable[..., bool] = guards.check
    return check


# How torch.utils.checkpoint ends a computation that it repeats, once it has every tensor that was saved.
StopRecomputation: type[Exception] = torch.utils.checkpoint._StopRecomputationError

# Dynamo's graphs switch gradients with this; the backend looks for it by name.
set_grad_enabled = torch._C._set_grad_enabled


def is_checkpoint(target: Any) -> bool:
    """Whether a call in Dynamo's graph is a region under torch.utils.checkpoint."""
    return isinstance(target, torch._ops.HigherOrderOperator) and target.name() == "tag_activation_checkpoint"


def n_torch_functions_active() -> int:
    """How many torch-function modes (``with torch.device(...)`` is one) are on."""
    return int(torch._C._len_torch_function_stack())


n_dispatch_modes = torch._C._len_torch_dispatch_stack

# What a tensor subclass makes of torch's functions is left out in this context.
without_torch_function = torch._C.DisableTorchFunctionSubclass


def takes_forward_derivatives() -> bool:
    """Whether tensors may have tangents: a level of forward-mode derivatives is open."""
    return torch.autograd.forward_ad._current_level >= 0


def symbolic_sizes(static: tuple[bool, ...]) -> StatelessSymbolicContext:
    """What FakeTensorMode.from_tensor takes to make some sizes symbols; equal sizes share one."""
    return StatelessSymbolicContext(
        dynamic_sizes=[DimDynamic.STATIC if fixed else DimDynamic.DUCK for fixed in static]
    )


def global_module_hooks() -> tuple[dict[int, Any], ...]:
    """The hooks that every module's call runs."""
    names = ("forward_pre", "forward", "backward_pre", "backward")
    return tuple(getattr(torch.nn.modules.module, f"_global_{name}_hooks") for name in names)


def has_global_module_hooks() -> bool:
    """Whether there are such hooks."""
    return any(global_module_hooks())


def is_cast_by_torch(module: torch.nn.Module) -> bool:
    """Whether torch's own code casts and moves a module and all in it."""
    return all(type(part)._apply is torch.nn.Module._apply for part in module.modules())


# Asked by torch's own Python code; the answers are fixed while we capture.
is_scripting = torch._jit_internal.is_scripting
get_tracing_state, is_tracing = torch._C._get_tracing_state, torch._C._is_tracing
log_api_usage_once = torch._C._log_api_usage_once


def version(tensor: torch.Tensor) -> int:
    """How often a tensor was written to."""
    return tensor._version


def set_version(tensor: torch.Tensor, version: int) -> None:
    """Makes a tensor say that it was written to so often."""
    torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


# What Dynamo writes for `tensor.data`.
data_of = torch._C._autograd._get_data_attr  # type: ignore[attr-defined]

is_any_autocast_enabled = torch._C._is_any_autocast_enabled


# Ask what does not change while a process runs.
FIXED_QUESTIONS = (
    torch._C._get_privateuse1_backend_name,
    torch._C._is_autocast_available,
)
is_torch_function_mode_enabled = torch._C._is_torch_function_mode_enabled
# Ask whether an argument's class gives torch's functions another meaning.
HAS_TORCH_FUNCTION = (
    torch._C._has_torch_function,
    torch._C._has_torch_function_unary,
    torch._C._has_torch_function_variadic,
)

# What each raises where its condition does not hold.
CHECKS: dict[Callable[..., Any], type[Exception]] = {
    torch._check: RuntimeError,
    torch._check_index: IndexError,
    torch._check_value: ValueError,
    torch._check_type: TypeError,
    torch._check_not_implemented: NotImplementedError,
    torch._assert: AssertionError,
}
check_with = torch._check_with
check_all, check_all_with = torch._check_tensor_all, torch._check_tensor_all_with
check_is_size = getattr(torch, "_check_is_size", None)  # deprecated since 2.13


def inlined(function: Any) -> Any:
    """The Python function that a scripted one was made from, or that says what an op of functions is; None else."""
    is_scan = function is associative_scan_op
    return generic_associative_scan if is_scan else getattr(function, "_torchdynamo_inline", None)


def global_state() -> tuple[Any, ...]:
    """The settings that change what ops do; a graph is right for one value of it."""
    return (
        torch.is_grad_enabled(),
        is_any_autocast_enabled() and autocast_settings(),
        torch.get_default_dtype(),
        torch.is_inference_mode_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch._C._len_torch_function_stack(),
        n_dispatch_modes(),
        is_tracing(),
        takes_forward_derivatives(),
    )
