"""What the symbolic interpreter knows of torch functions outside of graphs: facts, modes, questions of compilation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from longhand.capture import torch_private
from longhand.capture.autograd.kept.checkpoints import enter_checkpoint, leave_checkpoint
from longhand.capture.bytecode.calls.rules import Rule, Rules
from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.classes import MISSING
from longhand.capture.bytecode.values.constants import as_python, fold_call
from longhand.capture.bytecode.values.operators import kind_of
from longhand.capture.bytecode.values.sources import root
from longhand.capture.bytecode.values.tracked import Const, New, Obj, Seq, Tensor, Value

__all__ = ["RULES", "tell_compiled"]

RULES = Rules()


@RULES.of(torch.is_tensor)
def _is_tensor(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Const(isinstance(trace.force(args[0]), Tensor))


def _fact(test: Callable[[Any], bool]) -> Rule:
    def rule(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
        value = trace.force(args[0])
        if not isinstance(value, Tensor):
            raise Unsupported("a fact about a tensor is asked of something else")
        return Const(test(value.fake))

    return rule


RULES[torch.is_floating_point] = _fact(torch.is_floating_point)
RULES[torch.is_complex] = _fact(torch.is_complex)


@RULES.of(torch.is_grad_enabled)
def _is_grad_enabled(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    trace.asks_for_gradients = True
    return Const(torch.is_grad_enabled())


@RULES.of(torch_private.set_grad_enabled)
def _set_grad_enabled(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    mode = as_python(trace, args[0])
    trace.asks_for_gradients = True
    if mode != torch.is_grad_enabled():
        trace.call("call_function", torch_private.set_grad_enabled, (mode,), {})
        torch_private.set_grad_enabled(mode)
    return Const(None)


_UNHEEDED = frozenset(["debug", "early_stop", "determinism_check"])  # they change no result


@RULES.of(checkpoint)
def _checkpoint(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The function's calls in line, between two marks that say what to compute again."""
    given = {name: value for name, value in kwargs.items() if name not in _UNHEEDED}
    reentrant = given.pop("use_reentrant", Const(None))
    is_reentrant = as_python(trace, reentrant)
    if is_reentrant not in (True, False) or "context_fn" in given:
        raise Unsupported("checkpoint is called without use_reentrant, or with a context_fn")
    if not as_python(trace, given.pop("preserve_rng_state", Const(True))):
        raise Unsupported("checkpoint is called with preserve_rng_state=False")
    if is_reentrant and torch.is_grad_enabled():
        tensors = [value for value in map(trace.force, args) if isinstance(value, Tensor)]
        if given or not any(tensor.fake.requires_grad for tensor in tensors):
            raise Unsupported("a reentrant checkpoint gets no tensor that requires grad")
    trace.call("call_function", enter_checkpoint, (), {})
    n_draws = len(trace.draws)
    try:
        result = trace.call_value(args[0], args[1:], given)
    finally:
        trace.call("call_function", leave_checkpoint, (), {})
    if len(trace.draws) > n_draws and torch.is_grad_enabled():
        raise Unsupported("a checkpoint draws Python's random numbers, and again in its backward pass")
    return result


def _autocast_write(function: Any) -> Rule:
    def rule(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
        given = [as_python(trace, value) for value in args]
        trace.call("call_function", function, tuple(given), {})
        return Const(function(*given))

    return rule


def _autocast_question(function: Any) -> Rule:
    def rule(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
        settings = trace.guards.constant(trace.autocast)
        trace.guards.add(
            root("autocast_settings()", "autocast"), "{} == " + settings, "autocast is as it was"
        )
        return fold_call(trace, function, args, kwargs)

    return rule


_function: Any
for _function in (
    torch.set_autocast_enabled,
    torch.set_autocast_dtype,
    torch.set_autocast_cache_enabled,
    torch.autocast_increment_nesting,
    torch.autocast_decrement_nesting,
    torch.clear_autocast_cache,
):
    RULES[_function] = _autocast_write(_function)
for _function in (torch.is_autocast_enabled, torch.get_autocast_dtype, torch.is_autocast_cache_enabled):
    RULES[_function] = _autocast_question(_function)


def _of_a_device(function: Callable[..., Any]) -> Rule:
    """What a device is does not change; which one is the current one does, and no guard holds it."""

    def rule(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
        device = as_python(trace, args[0] if args else kwargs.get("device", Const(None)))
        if isinstance(device, str):
            device = torch.device(device)
        index = device if isinstance(device, int) else getattr(device, "index", None)
        if index is None or index < 0:
            raise Unsupported(f"torch.cuda.{function.__name__} is asked of the current device")
        return fold_call(trace, function, args, kwargs)

    return rule


for _function in (torch.cuda.get_device_capability, torch.cuda.get_device_name):
    RULES[_function] = _of_a_device(_function)


def _always(value: Any) -> Rule:
    return lambda trace, args, kwargs: Const(value)


@RULES.of(torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling)
def tell_compiled(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What code that asks is told: yes, as torch.compile tells it, unless it raises then and does not in eager."""
    if (trace.stack[-1].globals.get("__name__") or "").startswith("torch."):
        return Const(True)
    trace.has_told_compiled = True
    return Const(trace.tells_compiled)


@RULES.of(torch.cuda.is_current_stream_capturing)
def _is_recording(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Whether a CUDA graph is being recorded, which is another from call to call."""
    answer = fold_call(trace, torch.cuda.is_current_stream_capturing, args, kwargs)
    trace.guards.add(
        root("is_current_stream_capturing()", "stream"),
        "{} == " + trace.guards.constant(as_python(trace, answer)),
        "a CUDA graph is recorded, or is not, as it was",
    )
    return answer


RULES[torch.compiler.is_exporting] = _always(False)
RULES[torch.jit.is_scripting] = _always(False)
RULES[torch.jit.is_tracing] = _always(False)
RULES[torch_private.is_scripting] = _always(False)
RULES[torch_private.get_tracing_state] = _always(None)
RULES[torch_private.is_tracing] = _always(False)
RULES[torch_private.log_api_usage_once] = _always(None)


@RULES.of(*torch_private.HAS_TORCH_FUNCTION)
def _has_torch_function(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Subclasses of tensors never come so far; other classes may have the method, too."""
    parts = [trace.force(part) for arg in args for part in _parts_of(trace, arg)]
    for part in parts:
        if (
            isinstance(part, New | Obj)
            and trace.classes.lookup(kind_of(part), "__torch_function__") is not MISSING
        ):
            raise Unsupported("an argument has a __torch_function__ of its own")
    return Const(False)


def _parts_of(trace: Trace, value: Value) -> list[Value]:
    value = trace.force(value)
    return value.items if isinstance(value, Seq) else [value]


@RULES.of(torch.profiler.record_function)
def _record_function(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A name for the profiler: nothing in a graph."""
    return trace.call_value(Const(contextlib.nullcontext), [], {})


@RULES.of(torch.inference_mode)
def _inference_mode(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The mode that is on already: all that is left of it is that it turns gradients off, and that its lack does on."""
    given = [*args, *kwargs.values()]
    is_on = as_python(trace, given[0] if given else Const(True))
    if is_on is not torch.is_inference_mode_enabled():
        raise Unsupported("inference mode is turned on or off")
    return trace.call_value(Const(torch.no_grad if is_on else torch.enable_grad), [], {})


@RULES.of(torch_private.n_dispatch_modes)
def _n_dispatch_modes(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """None, which is asked again in each call: nn.MultiheadAttention looks whether anything traces it."""
    if torch_private.n_dispatch_modes():
        raise Unsupported("a torch dispatch mode is active")
    count = trace.guards.constant(torch_private.n_dispatch_modes)
    trace.guards.add(
        root(f"{count}()", "torch dispatch modes"), "{} == 0", "no torch dispatch mode is active"
    )
    return Const(0)


# A capture under such a mode is refused.
RULES[torch_private.is_torch_function_mode_enabled] = _always(False)
