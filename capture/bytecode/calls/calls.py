"""Calls: the user's functions are interpreted in place, torch's are leaves, built-in ones have rules."""

from __future__ import annotations

import builtins
import functools
import inspect
import itertools
import types
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from longhand.capture import torch_private
from longhand.capture.bytecode.calls import (
    asserted,
    class_definitions,
    construction,
    contexts,
    derivative_calls,
    functions,
    legacy_tensors,
    library,
    module_rules,
    operator_rules,
    torch_rules,
    transforms,
)
from longhand.capture.bytecode.calls.autograd_functions import call_autograd_function
from longhand.capture.bytecode.calls.cached import call_cached
from longhand.capture.bytecode.calls.contexts import ForwardContext
from longhand.capture.bytecode.calls.draws import drawn
from longhand.capture.bytecode.calls.leaves import is_torch_leaf
from longhand.capture.bytecode.calls.messages import call_logger
from longhand.capture.bytecode.calls.module_calls import call_module, run_hook
from longhand.capture.bytecode.calls.rules import Rule
from longhand.capture.bytecode.calls.tensors import takes_code, torch_call
from longhand.capture.bytecode.containers import copies, dicts, iterators, methods, sets
from longhand.capture.bytecode.containers.items import SequentialSlice
from longhand.capture.bytecode.entry.breaks import NeedsData, Raised, Unsupported
from longhand.capture.bytecode.frames.frame import Frame
from longhand.capture.bytecode.skips import is_closed
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values import attributes
from longhand.capture.bytecode.values.classes import MISSING
from longhand.capture.bytecode.values.constants import describe, from_python
from longhand.capture.bytecode.values.operators import is_python, kind_of
from longhand.capture.bytecode.values.tracked import (
    Array,
    Bound,
    BoundMethod,
    Cell,
    Const,
    Dict,
    DictView,
    Error,
    Func,
    IntRange,
    Iter,
    New,
    Obj,
    PartialCall,
    Seq,
    SetOf,
    Tensor,
    Value,
)

__all__ = ["advance", "all_items", "call", "call_value", "iterate"]

_MOST_FRAMES = 80
_RULES: dict[Any, Rule] = {
    **functions.RULES,
    **iterators.RULES,
    **operator_rules.RULES,
    **copies.RULES,
    **torch_rules.RULES,
    **asserted.RULES,
    **class_definitions.RULES,
    **contexts.RULES,
    **derivative_calls.RULES,
    **legacy_tensors.RULES,
    **library.RULES,
    **module_rules.RULES,
    **transforms.RULES,
}
_OPEN = ("torch.autograd.grad_mode", ForwardContext.__module__)
_CLOSED = ("torch._dynamo", "torch.compiler", "torch._C", "torch.autograd", "longhand.")

# Once Dynamo has run, `nn.Module.__init__` is a function of its own, which tells it that a module is new.
_TAGGING = "torch._dynamo.mutation_guard"


def call(trace: Trace, frame: Any, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``function(*args, **kwargs)``."""
    return call_value(trace, function, args, kwargs)


def call_value(trace: Trace, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``function(*args, **kwargs)``."""
    function = trace.force(function)
    if (number := drawn(trace, function, args, kwargs)) is not None:
        return number
    if isinstance(function, BoundMethod):
        inner = function.function
        if (
            isinstance(inner, Func)
            and inner.real is torch.nn.Module.__call__
            and isinstance(function.owner, Obj)
        ):
            return call_module(trace, function.owner, args, kwargs)
        return call_value(trace, inner, [function.owner, *args], kwargs)
    if isinstance(function, Func):
        return _call_function(trace, function, args, kwargs)
    if isinstance(function, Bound):
        owner = function.owner.value if isinstance(function.owner, Const) else None
        if isinstance(owner, type) and torch_private.is_autograd_apply(
            trace.classes.lookup(owner, function.name)
        ):
            return call_autograd_function(trace, [function.owner, *args], kwargs)
        return methods.call_method(trace, function, args, kwargs)
    if isinstance(function, Const):
        return _call_constant(trace, function.value, args, kwargs)
    if isinstance(function, PartialCall):
        return call_value(trace, function.function, [*function.args, *args], {**function.keywords, **kwargs})
    if isinstance(function, Obj):
        return _call_object(trace, function, args, kwargs)
    if isinstance(function, New):
        return call_value(trace, attributes.get_special(trace, function, "__call__"), args, kwargs)
    if isinstance(function, Seq) and function.kind is SequentialSlice and len(args) == 1 and not kwargs:
        result = args[0]
        for module in function.items:
            result = call_value(trace, module, [result], {})
        return result
    raise Unsupported(f"a {describe(function)} is called")


def _rule_of(function: Any) -> Rule | None:
    try:
        return _RULES.get(function)
    except TypeError:
        return None


def _call_constant(trace: Trace, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if (rule := _rule_of(function)) is not None:
        return rule(trace, args, kwargs)
    if is_torch_leaf(function):
        if takes_code(trace, function, args, kwargs):
            return _call_function(trace, trace.function(function, None), args, kwargs)
        return torch_call(trace, function, args, kwargs)
    if isinstance(function, type):
        return construction.construct(trace, function, args, kwargs)
    if (known := library.computed(trace, function, args, kwargs)) is not None:
        return known
    if isinstance(function, types.MethodDescriptorType | types.WrapperDescriptorType) and args:
        return methods.call_method(trace, Bound(args[0], function.__name__), args[1:], kwargs)
    owner = getattr(function, "__self__", None)
    if isinstance(function, types.BuiltinFunctionType) and isinstance(owner, type):
        return call_value(trace, Bound(Const(owner), function.__name__), args, kwargs)
    name = getattr(function, "__qualname__", None) or describe(Const(function))
    module = getattr(function, "__module__", None)
    raise Unsupported(f"{module + '.' if module else ''}{name} is called, which capture does not know")


def _call_object(trace: Trace, function: Obj, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = function.value
    if (
        isinstance(value, torch.nn.Module)
        and trace.classes.lookup(type(value), "__call__") is torch.nn.Module.__call__
    ):
        return call_module(trace, function, args, kwargs)
    if isinstance(value, functools.partial):
        inner = attributes.get(trace, function, "func")
        before = all_items(trace, attributes.get(trace, function, "args"))
        named = attributes.get(trace, function, "keywords")
        assert isinstance(named, Dict)
        trace.guard_keys(named)
        return call_value(trace, inner, [*before, *args], {**named.items, **kwargs})
    if isinstance(value, functools._lru_cache_wrapper):
        return call_cached(trace, function, args, kwargs)
    if isinstance(value, weakref.ReferenceType) and function.source is not None and not args:
        return trace.wrap(value(), function.source.then("{}()", "{}()"))
    if (inlined := torch_private.inlined(value)) is not None and function.source is not None:
        trace.guards.same_object(function.source, value)
        return call_value(trace, trace.function(inlined, None), args, kwargs)
    if library.is_numpy_function(value) and function.source is not None:
        trace.guards.same_object(function.source, value)
        return library.call_numpy(trace, value, args, kwargs)
    return call_value(trace, attributes.get_special(trace, function, "__call__"), args, kwargs)


def _call_function(trace: Trace, function: Func, args: list[Value], kwargs: dict[str, Value]) -> Value:
    real = function.real
    if real is not None:
        if (rule := _rule_of(real)) is not None:
            return rule(trace, args, kwargs)
        if is_torch_leaf(real) and not takes_code(trace, real, args, kwargs):
            return torch_call(trace, real, args, kwargs)
        module = real.__module__ or ""
        if torch_private.is_autograd_apply(real):
            return call_autograd_function(trace, args, kwargs)
        if getattr(real, "_torchdynamo_disable", False):
            raise Unsupported(f"{real.__qualname__} is disabled for compilation")
        if hasattr(real, "_torchdynamo_orig_callable"):  # it bears the name and module of what it wraps
            raise Unsupported(
                f"{real.__qualname__} is called, which torch.compile captures",
                "Compile it with longhand.compile, or call the original.",
            )
        if module == _TAGGING and "init" in function.code.co_freevars:
            return call_value(trace, _tagged_init(function), args, kwargs)
        if is_closed(function.code):
            raise Unsupported(f"{module}.{real.__qualname__} is called")
        if module.startswith(_CLOSED) and module not in _OPEN:
            if real.__name__ in ("is_compiling", "is_dynamo_compiling"):
                return torch_rules.tell_compiled(trace, args, kwargs)
            raise Unsupported(f"{module}.{real.__qualname__} is called")
        if real.__name__ == "warn_once" or module == "warnings" or module.startswith("logging"):
            return call_logger(trace, real, args)
        if (known := library.computed(trace, real, args, kwargs)) is not None:
            return known
    flags = function.code.co_flags
    if flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise Unsupported("a coroutine function is called")
    if len(trace.stack) >= _MOST_FRAMES:
        raise Unsupported("calls are nested too deeply")
    if real is not None:
        trace.codes[real] = function.code
    frame = _new_frame(trace, function, bind(function, args, kwargs))
    if flags & inspect.CO_GENERATOR:
        trace.generators.append(frame)
        return Iter(_generate(trace, frame), frame)
    return run_hook(trace, frame) if trace.hooks.is_hook(frame.code) else trace.run_frame(frame)


def _tagged_init(function: Func) -> Value:
    """What Dynamo's `__init__` of modules calls: the one that was there before."""
    cells = dict(zip(function.code.co_freevars, function.closure, strict=True))
    content = cells["init"].content
    assert content is not None
    return content


def _new_frame(trace: Trace, function: Func, given: dict[str, Value]) -> Frame:
    code = function.code
    cells = dict(zip(code.co_freevars, function.closure, strict=True))
    for name in code.co_cellvars:
        cells[name] = Cell(given.pop(name, None), name)
    names = vars(builtins)
    return Frame(code, function.globals, names, given, cells, trace.guards.constant(function.globals))


def _generate(trace: Trace, frame: Frame) -> Iterator[Value]:
    """A generator's values: its frame runs to the next yield."""
    while True:
        value = trace.run_frame(frame)
        if frame.finished:
            frame.returned = value
            return
        yield value
        sent, frame.sent = frame.sent, Const(None)
        frame.push(sent)


def bind(function: Func, args: list[Value], kwargs: dict[str, Value]) -> dict[str, Value]:
    """Arguments by the names of the function's locals."""
    code = function.code
    n, n_keywords = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    given: dict[str, Value] = dict(zip(names[:n], args, strict=False))
    position = n + n_keywords
    if code.co_flags & inspect.CO_VARARGS:
        given[names[position]] = Seq(tuple, args[n:])
        position += 1
    elif len(args) > n:
        raise _mismatch(function)
    rest: dict[Any, Value] = {}
    for key, value in kwargs.items():
        if key in names[code.co_posonlyargcount : n + n_keywords] and key not in given:
            given[key] = value
        elif code.co_flags & inspect.CO_VARKEYWORDS and key not in given:
            rest[key] = value
        else:
            raise _mismatch(function)
    if code.co_flags & inspect.CO_VARKEYWORDS:
        given[names[position]] = Dict(dict, rest)
    first_default = n - len(function.defaults)
    for index, name in enumerate(names[: n + n_keywords]):
        if name in given:
            continue
        if index < n and index >= first_default:
            given[name] = function.defaults[index - first_default]
        elif index >= n and name in function.keyword_defaults:
            given[name] = function.keyword_defaults[name]
        else:
            raise _mismatch(function)
    return given


def _mismatch(function: Func) -> Unsupported:
    return Unsupported(f"{function.name} is called with arguments that do not fit")


# Iteration


def iterate(trace: Trace, value: Value) -> Value:
    """``iter(value)``."""
    value = trace.force(value)
    if isinstance(value, Iter):
        return value
    if isinstance(value, DictView):
        return dicts.iterate(trace, value.owner, value.word)
    if isinstance(value, Seq):
        return trace.over_items(value)
    if isinstance(value, Dict):
        return dicts.iterate(trace, value)
    if isinstance(value, SetOf):
        return Iter(iter(sets.set_items(trace, value)), is_fixed=True)
    if isinstance(value, IntRange | Array):
        return Iter(map(from_python, iter(value.value)), is_fixed=True)
    if isinstance(value, Const) and isinstance(value.value, str | bytes | type | types.MappingProxyType):
        return Iter(iter([from_python(part) for part in value.value]), is_fixed=True)  # type: ignore[union-attr]
    if isinstance(value, Tensor):
        if not value.fake.dim() or isinstance(value.fake.shape[0], torch.SymInt):
            raise NeedsData("a tensor of unknown length is iterated over")
        parts = torch_call(trace, torch.unbind, [value], {})
        assert isinstance(parts, Seq)
        return Iter(iter(parts.items), is_fixed=True)
    if isinstance(value, New | Obj):
        if value.storage is not None and not is_python(trace, kind_of(value), "__iter__"):
            return iterate(trace, value.storage)
        if _has_special(trace, value, "__iter__"):
            made = trace.force(call_value(trace, attributes.get_special(trace, value, "__iter__"), [], {}))
            is_own = isinstance(made, New | Obj) and _has_special(trace, made, "__next__")
            return made if is_own else iterate(trace, made)
    raise Unsupported(f"a {describe(value)} is iterated over")


def _has_special(trace: Trace, value: New | Obj, name: str) -> bool:
    return trace.classes.lookup(kind_of(value), name) is not MISSING


def advance(trace: Trace, iterator: Value) -> Value | None:
    """``next(iterator)``; None at its end."""
    if isinstance(iterator, Iter):
        if iterator.is_broken:
            raise Unsupported("an iterator that raised is asked for more")
        try:
            return next(iterator.items, None)
        except BaseException:
            iterator.is_broken = iterator.frame is None
            raise
    if isinstance(iterator, New | Obj):
        try:
            return call_value(trace, attributes.get_special(trace, iterator, "__next__"), [], {})
        except Raised as raised:
            if isinstance(raised.value, Error) and issubclass(raised.value.kind, StopIteration):
                return None
            raise
    raise Unsupported(f"next() of a {describe(iterator)}")


def all_items(trace: Trace, value: Value) -> list[Value]:
    """The items of an iterable, in order."""
    value = trace.force(value)
    if isinstance(value, Seq):
        return [trace.force(part) for part in value.items]
    iterator = iterate(trace, value)
    parts = iterator.items if isinstance(iterator, Iter) else iter(lambda: advance(trace, iterator), None)
    items = list(itertools.islice(parts, 20_000))
    if len(items) == 20_000:
        raise Unsupported("an iterator does not end")
    return items
