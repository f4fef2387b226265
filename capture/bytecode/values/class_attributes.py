"""Attributes of what is known by identity: modules, classes, and constants."""

from __future__ import annotations

import math
import types
from typing import Any

import torch

from longhand.capture.bytecode.calls.leaves import is_constant_object, is_torch_leaf
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.classes import MISSING
from longhand.capture.bytecode.values.constants import from_python
from longhand.capture.bytecode.values.function_attributes import missing
from longhand.capture.bytecode.values.sources import Source, attribute
from longhand.capture.bytecode.values.tracked import Bound, BoundMethod, Const, Value

__all__ = ["constant_attribute", "of_constant"]

# Modules whose functions and classes are known by identity, whatever path leads to them.
_FIXED = ("torch", "math", "operator", "functools", "itertools", "collections", "typing", "builtins", "inspect",
          "dataclasses", "enum", "contextlib", "types", "copy", "abc", "warnings", "os", "sys", "re")  # fmt: skip


def of_constant(trace: Trace, owner: Const, name: str) -> Value:
    """``owner.name``."""
    value = owner.value
    if isinstance(value, types.ModuleType):
        if not hasattr(value, name):
            raise missing(owner, name)
        member = getattr(value, name)
        fixed = value.__name__.split(".")[0] in _FIXED
        if fixed and (is_constant_object(member) or is_torch_leaf(member)):
            if not isinstance(
                member, types.ModuleType
            ):  # who replaces a module in a package replaces much else
                trace.guards.same_object(attribute(_root_of(trace, owner), name), member)
            return constant_attribute(trace, member, owner, name)
        if value is math and type(member) is float:
            trace.guards.equal(attribute(_root_of(trace, owner), name), member)
            return Const(member)
        return trace.wrap(member, attribute(owner.source or _root_of(trace, owner), name))
    if isinstance(value, type):
        return _of_class(trace, owner, value, name)
    if name == "__class__":
        return Const(type(value))
    member = getattr(value, name, MISSING)
    if member is MISSING:
        raise missing(owner, name)
    if isinstance(member, types.MethodType) and isinstance(member.__func__, types.FunctionType):
        return BoundMethod(trace.function(member.__func__, None), owner)
    if isinstance(member, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return Const(member)
    if callable(member) and not isinstance(member, type):
        return Bound(owner, name)
    return constant_attribute(trace, member, owner, name)


def constant_attribute(trace: Trace, member: Any, owner: Value, name: str) -> Value:
    """An attribute of an owner that is known by identity, once it was read."""
    if isinstance(member, types.FunctionType) and not is_torch_leaf(member):
        return trace.function(member, None)
    if isinstance(member, torch.Tensor | torch.nn.Module | list | dict | set):
        base = owner.source or _root_of(trace, owner)
        return trace.wrap(member, attribute(base, name))
    return from_python(member)


def _root_of(trace: Trace, owner: Value) -> Source:
    assert isinstance(owner, Const)
    text = trace.guards.constant(owner.value)
    return Source(None, text, getattr(owner.value, "__name__", text))


def _of_class(trace: Trace, owner: Const, kind: type, name: str) -> Value:
    if name in ("__name__", "__qualname__", "__module__", "__mro__", "__bases__", "__doc__", "__dict__"):
        member = getattr(kind, name)
        return from_python(member) if name != "__dict__" else Const(member)
    raw = trace.classes.lookup(kind, name)
    if raw is MISSING:
        meta = trace.classes.lookup(type(kind), name)
        if meta is MISSING:
            raise missing(owner, name)
        if isinstance(meta, types.FunctionType):
            return BoundMethod(trace.function(meta, None), owner)
        member = getattr(kind, name)
        return (
            Bound(owner, name) if callable(member) and not isinstance(member, type) else from_python(member)
        )
    if isinstance(raw, staticmethod):
        return constant_attribute(trace, raw.__func__, owner, name)
    if isinstance(raw, classmethod) and isinstance(raw.__func__, types.FunctionType):
        return BoundMethod(trace.function(raw.__func__, None), owner)
    if isinstance(raw, types.FunctionType):
        return trace.function(raw, None) if not is_torch_leaf(raw) else Const(raw)
    member = getattr(kind, name)
    if is_constant_object(member) or is_torch_leaf(member) or hasattr(type(raw), "__get__"):
        return constant_attribute(trace, member, owner, name)
    # A class's data may change: read it through the class.
    return trace.wrap(member, attribute(_root_of(trace, owner), name))
