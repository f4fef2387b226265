"""What the symbolic interpreter knows of the standard library's classes written in C, and of numpy."""

from __future__ import annotations

import collections
import inspect
import logging
import operator
import re
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from longhand.capture.bytecode.calls import functions
from longhand.capture.bytecode.calls.leaves import is_numpy_scalar
from longhand.capture.bytecode.calls.rules import Rule, Rules
from longhand.capture.bytecode.calls.sized_tensors import tensor_of_sizes
from longhand.capture.bytecode.calls.tensors import tensor_method, torch_call
from longhand.capture.bytecode.containers.items import get_item
from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values import attributes
from longhand.capture.bytecode.values.arrays import is_array
from longhand.capture.bytecode.values.constants import (
    as_key,
    as_python,
    describe,
    fold,
    fold_call,
    from_python,
)
from longhand.capture.bytecode.values.operators import binary
from longhand.capture.bytecode.values.sources import root
from longhand.capture.bytecode.values.tracked import (
    Array,
    BoundMethod,
    Const,
    Dict,
    Func,
    New,
    Obj,
    PartialCall,
    Seq,
    Value,
    WeakReference,
)

__all__ = ["RULES", "call_numpy", "computed", "is_numpy_function"]

RULES = Rules()


@RULES.of(types.MethodType)
def _method(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return BoundMethod(args[0], trace.force(args[1]))


@RULES.of(types.MappingProxyType)
def _mapping_proxy(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """It reads as the dict does."""
    value = trace.force(args[0])
    if not isinstance(value, Dict):
        raise Unsupported(f"a view of a {describe(value)} is made")
    return value


def _getter(function: Callable[[Trace, list[Value], Value], Value]) -> Rule:
    """operator.itemgetter and attrgetter: called with a value, they read something of it."""

    def read(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
        parts = [function(trace, [name], args[-1]) for name in args[:-1]]
        return parts[0] if len(parts) == 1 else Seq(tuple, parts)

    def rule(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return PartialCall(Const(read), args, {})

    RULES[read] = read
    return rule


def _attribute(trace: Trace, names: list[Value], value: Value) -> Value:
    for name in as_python(trace, names[0]).split("."):
        value = attributes.get(trace, value, name)
    return value


RULES[operator.itemgetter] = _getter(lambda trace, keys, value: get_item(trace, value, keys[0]))
RULES[operator.attrgetter] = _getter(_attribute)


def _call_method(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    *given, owner = args
    return trace.call_value(attributes.get(trace, owner, as_python(trace, given[0])), given[1:], kwargs)


RULES[_call_method] = _call_method
RULES[operator.methodcaller] = lambda trace, args, kwargs: PartialCall(Const(_call_method), args, kwargs)


@RULES.of(getattr(collections, "_count_elements"))  # noqa: B009
def _count_elements(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """How a Counter counts."""
    owner = trace.force(args[0])
    counts = owner.storage if isinstance(owner, New | Obj) else owner
    if not isinstance(counts, Dict):
        raise Unsupported(f"what is in a {describe(owner)} is counted")
    trace.changing(counts)
    for value in trace.all_items(args[1]):
        key = as_key(trace, value)
        counts.items[key] = binary(trace, "+", counts.items.get(key, Const(0)), Const(1))
    return Const(None)


@RULES.of(logging.getLogger)
def _get_logger(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The logger of a name is the same whenever it is asked for."""
    name = as_python(trace, [*args, *kwargs.values(), Const(None)][0])
    text = f"{trace.guards.constant(logging.getLogger)}({name!r})"
    return trace.wrap(logging.getLogger(name), root(text, f"the logger {name}"))


@RULES.of(sys.exception)
def _exception(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """None is all that is known: neither the frames that are captured handle an exception, nor who calls them."""
    errors = [frame.current_error for frame in trace.stack]
    is_handling = not all(isinstance(error, Const) and error.value is None for error in errors)
    if is_handling or sys.exception() is not None:
        raise Unsupported("the exception that is handled is asked for")
    asked = root(f"{trace.guards.constant(sys.exception)}()", "the exception that the caller handles")
    trace.guards.equal(asked, None)
    return Const(None)


@RULES.of(sys.exc_info)
def _exc_info(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Seq(tuple, [_exception(trace, args, kwargs)] * 3)


@RULES.of(inspect.getfullargspec)
def _argument_names(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    function = trace.force(args[0])
    if not isinstance(function, Func) or function.real is None:
        raise Unsupported("the arguments of something that is no plain function are asked for")
    return fold(inspect.getfullargspec, function.real)


_NUMPY_KINDS = ("ufunc", "_ArrayFunctionDispatcher")
_MAKES_ARRAYS = frozenset(["array", "asarray", "arange", "zeros", "ones", "full", "linspace", "eye"])
_WRITES = re.compile(r"save\w*|put\w*|copyto|place|fill_diagonal|set_\w+|seterr\w*")


def _referent(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What a weak reference gives, called."""
    return args[0]


RULES[_referent] = _referent


@RULES.of(weakref.ref)
def _weak_reference(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Of an object, there is one; in captured code that object lives as long as it."""
    owner = trace.force(args[0])
    if len(args) != 1 or kwargs or not isinstance(owner, New):
        raise Unsupported(f"a weak reference to a {describe(owner)}, or one that tells, is made")
    return trace.references.setdefault(owner, WeakReference(Const(_referent), [owner], {}))


def is_numpy_function(value: Any) -> bool:
    """Whether it is one of numpy's, which give numbers and arrays of those they are given."""
    kind = type(value)
    if kind.__module__ == "numpy":
        return kind.__name__ in _NUMPY_KINDS
    if isinstance(value, types.FunctionType):
        return (value.__module__ or "").partition(".")[0] == "numpy"
    is_plain = isinstance(value, types.BuiltinFunctionType) and value.__module__ == "numpy"
    return is_plain and value.__name__ in _MAKES_ARRAYS


def computed(trace: Trace, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """What a function that may be run at once gives; None for every other."""
    if functions.is_pure(function):
        return fold_call(trace, function, args, kwargs)
    return call_numpy(trace, function, args, kwargs) if is_numpy_function(function) else None


def call_numpy(trace: Trace, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A function of numpy on known numbers and arrays of such.

    Raises:
        Unsupported: It does more than compute, or gives something else.
    """
    if getattr(function, "__module__", "").startswith("numpy.random"):
        raise Unsupported("numpy draws random numbers")
    if (
        "out" in kwargs
        or len(args) > getattr(function, "nin", len(args))
        or _WRITES.fullmatch(function.__name__)
    ):
        raise Unsupported(f"{function.__name__} of numpy writes")
    given = [as_python(trace, value) for value in args]
    result = fold(function, *given, **{key: as_python(trace, value) for key, value in kwargs.items()})
    is_number = isinstance(result, Const) and (
        is_numpy_scalar(result.value) or isinstance(result.value, int | float | bool | torch.dtype)
    )
    if not is_number and not isinstance(result, Array):
        raise Unsupported(f"{function.__name__} of numpy gives neither a number nor an array")
    return result


@RULES.of(torch.from_numpy)
def _from_numpy(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The tensor that shares an outside array's memory: an input of the graph, made anew in each call."""
    value = trace.force(args[0])
    if not isinstance(value, Obj) or value.source is None or not is_array(value.value):
        raise Unsupported(f"torch.from_numpy of a {describe(value)}")
    if not value.value.flags.writeable:
        raise Unsupported("torch.from_numpy of an array that cannot be written to")
    made = trace.array_tensors.get(value)
    if made is None:
        place = value.source.then(trace.guards.constant(torch.from_numpy) + "({})", "from_numpy({})")
        try:
            tensor = torch.from_numpy(value.value)
        except (TypeError, ValueError) as error:
            raise Unsupported(f"torch.from_numpy: {error}") from None
        trace.array_tensors[value] = made = trace.wrap(tensor, place)
    return made


@RULES.of(torch.tensor)
def _tensor(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Of an array: its values, with its type where none is asked for."""
    value = trace.force(args[0]) if args else None
    if isinstance(value, Array):
        dtype = torch.from_numpy(value.value.copy()).dtype
        return torch_call(
            trace, torch.tensor, [from_python(value.value.tolist())], {"dtype": Const(dtype), **kwargs}
        )
    if isinstance(value, Obj) and is_array(value.value) and set(kwargs) <= {"dtype", "device"}:
        made = _from_numpy(trace, [value], {})
        return tensor_method(trace, "to", [made], {"copy": Const(True), **kwargs})
    made_of_sizes = tensor_of_sizes(trace, args, kwargs)
    return torch_call(trace, torch.tensor, args, kwargs) if made_of_sizes is None else made_of_sizes


@RULES.of(torch.as_tensor)
def _as_tensor(trace: Trace, args: list[Value], kwargs: dict[str, Value]) -> Value:
    made_of_sizes = tensor_of_sizes(trace, args, kwargs)
    return torch_call(trace, torch.as_tensor, args, kwargs) if made_of_sizes is None else made_of_sizes
