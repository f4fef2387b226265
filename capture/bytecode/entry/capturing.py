"""Captures one frame: tries, decides where to break, and tries again."""

from __future__ import annotations

import dataclasses
import inspect
import os
from types import CodeType
from typing import Any

import torch

from longhand.capture import torch_private, torch_transforms
from longhand.capture.autocast_state import autocast_nesting, autocast_settings, set_autocast
from longhand.capture.bytecode.calls.derivative_calls import leave_second_derivative
from longhand.capture.bytecode.entry.backward_hooks import has_hooks_on_its_last_op
from longhand.capture.bytecode.entry.breaks import (
    BreakRecord,
    LeftWithCalls,
    NeedsData,
    NeedsFixedSizes,
    NothingLeft,
    SkipFrame,
    Unsupported,
    release,
)
from longhand.capture.bytecode.entry.captured import Attempt, Captured, Miss, Ways
from longhand.capture.bytecode.entry.kept_by_hooks import KeptInGraph
from longhand.capture.bytecode.entry.resume import original_position
from longhand.capture.bytecode.entry.shapes import DynamicSizes
from longhand.capture.trace_isolation import isolated_saves
from longhand.errors import LonghandError

__all__ = ["capture_frame", "flat_parameters", "reason_to_wait"]


def flat_parameters(code: CodeType) -> tuple[str, ...]:
    """The names of the arguments as the hook passes them on."""
    n = code.co_argcount + code.co_kwonlyargcount
    n += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:n]


def reason_to_wait(args: tuple[Any, ...] = ()) -> str:
    """Why no call is captured now, though others of the same function may be; empty if there is none.

    Args:
        args: What the function is called with, flattened.
    """
    if torch_private.n_torch_functions_active():
        return "a torch function mode (as of torch.set_default_device) is active"
    if torch_private.n_dispatch_modes():  # generated kernels are no calls that it sees
        return "a torch dispatch mode (as of a flop counter) is active"
    if torch_transforms.is_inside_transform():
        return "a transform of torch.func is running"
    if torch.is_grad_enabled() and args and has_hooks_on_its_last_op(args[0]):
        return "a module has a hook of register_backward_hook, which is given the gradients of its last op's arguments"
    return "torch.jit.trace is recording" if torch_private.get_tracing_state() is not None else ""


def capture_frame(
    function: Any,
    code: CodeType,
    names: tuple[str, ...],
    args: tuple[Any, ...],
    sizes: DynamicSizes,
    backend: Any,
    miss: Miss,
    failed: Miss | None = None,
    owner: Any = None,
    *,
    keeps_empty: bool = False,
) -> Captured:
    """Captures one call.

    Args:
        function: The function that is called.
        code: Its code.
        names: The names of its flattened arguments.
        args: The flattened arguments.
        sizes: Which sizes are symbolic.
        backend: Compiles a graph.
        miss: What runs where the guards do not hold.
        failed: What runs where the graph raised.
        owner: The hook's callback: entries are for calls under this one only.
        keeps_empty: Whether there is an entry for a call that does nothing with tensors.
    """
    records: list[BreakRecord] = []
    grad_enabled = torch.is_grad_enabled()
    autocast = autocast_settings(), autocast_nesting()
    ways = Ways(sizes, keeps_empty=keeps_empty)
    where = f"{code.co_filename}:{code.co_firstlineno}"
    try:
        while True:
            attempt = Attempt(function, code, names, args, ways, owner)
            try:
                with isolated_saves(), torch_transforms.keeping_transforms():
                    return attempt.run(backend, (miss, failed), tuple(records), grad_enabled, autocast)
            except (KeptInGraph, NeedsFixedSizes, SkipFrame, Unsupported) as error:
                release(error)
                ways, record = _next(attempt, error, where)
                records = [*records, record] if record else []
            torch_private.set_grad_enabled(grad_enabled)
            set_autocast(*autocast)
    except NothingLeft as left:
        release(left)
        return Captured(None, tuple(records[:-1]))
    except LeftWithCalls as left:
        release(left)
        records.append(BreakRecord(str(left), left.where or where, left.hint, skipped=True))
        return Captured(None, tuple(records), leaves_calls=True)
    except SkipFrame as skip:
        release(skip)
        records.append(BreakRecord(str(skip), where, skipped=True))
        return Captured(None, tuple(records), does_nothing=ways.ends and not attempt.n_ops())
    except Exception as error:
        # Whatever capture did not foresee leaves the frame to CPython, which is always right.
        if os.environ.get("LONGHAND_DEBUG", "0") != "0" or isinstance(error, LonghandError):
            raise
        release(error)
        text = f"capture itself failed: {type(error).__name__}: {error}"
        records.append(BreakRecord(text, where, skipped=True))
        return Captured(None, tuple(records), failure=text)
    finally:
        torch_private.set_grad_enabled(grad_enabled)
        set_autocast(*autocast)


def _next(attempt: Attempt, error: Exception, where: str) -> tuple[Ways, BreakRecord | None]:
    """How a frame is tried again, and the break that it has then; None where it begins anew.

    Raises:
        SkipFrame: It is not.
    """
    ways = attempt.ways
    if isinstance(error, NeedsFixedSizes):
        return dataclasses.replace(ways, sizes=ways.sizes.fixed(), break_at=None), None
    if isinstance(error, KeptInGraph):
        return dataclasses.replace(ways, hooks_apart=ways.hooks_apart | error.codes, break_at=None), None
    if isinstance(error, LeftWithCalls):
        raise error
    if attempt.raises_as_compiled:
        return dataclasses.replace(ways, tells_compiled=False, break_at=None), None
    if isinstance(error, Unsupported) and ways.break_at is None:
        leave_second_derivative([original_position(attempt.code, 0)[0], *attempt.trace.codes.values()], error)
        record = BreakRecord(error.reason, error.where or where, error.hint)
        place, takes_loops = attempt.break_place(), isinstance(error, NeedsData)
        left = dataclasses.replace(ways, break_at=place, takes_loops=takes_loops, ends=attempt.has_raised)
        return left, record
    if ways.may_delay and attempt.trace.has_delayed:
        return dataclasses.replace(ways, break_at=None, may_delay=False), None
    raise SkipFrame(str(error)) from None
