"""Reading attributes of tracked values, by Python's own rules."""

from __future__ import annotations

import collections
import functools
import types
from typing import Any

import torch

from longhand.capture.bytecode.calls.leaves import is_constant_object, is_torch_leaf
from longhand.capture.bytecode.calls.tensors import tensor_attribute
from longhand.capture.bytecode.entry.breaks import Raised, Unsupported
from longhand.capture.bytecode.trace import DELETED, Trace
from longhand.capture.bytecode.values.arrays import ATTRIBUTES, METHODS
from longhand.capture.bytecode.values.class_attributes import constant_attribute, of_constant
from longhand.capture.bytecode.values.classes import MISSING
from longhand.capture.bytecode.values.constants import describe, from_python
from longhand.capture.bytecode.values.function_attributes import get_of_function, missing
from longhand.capture.bytecode.values.sources import Source, attribute, item
from longhand.capture.bytecode.values.tracked import (
    Array,
    Bound,
    BoundMethod,
    Const,
    Dict,
    Error,
    Func,
    IntRange,
    Iter,
    New,
    Obj,
    PartialCall,
    Seq,
    SetOf,
    Slice,
    Super,
    Sym,
    Tensor,
    Value,
)

__all__ = ["MODULE_STORES", "find", "get", "get_plain", "get_special", "has", "is_data_descriptor"]

_STORAGES = (dict, list, tuple)
MODULE_STORES = ("_parameters", "_buffers", "_modules")


def find(trace: Trace, owner: Value, name: str) -> Value | None:
    """``owner.name``, looked up once; None if there is none."""
    try:
        return get(trace, owner, name)
    except Raised as raised:
        if isinstance(raised.value, Error) and issubclass(raised.value.kind, AttributeError):
            return None
        raise


def has(trace: Trace, owner: Value, name: str) -> bool:
    """``hasattr``."""
    return find(trace, owner, name) is not None


def get_special(trace: Trace, owner: Value, name: str) -> Value:
    """The method that an operator or a statement calls: the class's, whatever the instance has under that name."""
    if not isinstance(owner, New | Obj):
        return get(trace, owner, name)
    kind = owner.kind if isinstance(owner, New) else type(owner.value)
    if isinstance(owner, Obj):
        _refuse_kernel(owner.value)
    member = trace.classes.lookup(kind, name)
    if member is MISSING:
        raise Unsupported(f"a {describe(owner)} has no {name}")
    return _bind(trace, member, owner, kind, name)


def get(trace: Trace, owner: Value, name: str) -> Value:
    """``owner.name``."""
    owner = trace.force(owner)
    if isinstance(owner, Tensor):
        of_tensor = tensor_attribute(trace, owner, name)
        if of_tensor is not None:
            return of_tensor
        if owner.source is not None and hasattr(trace.real_inputs[trace.inputs.index(owner)], "__dict__"):
            real = trace.real_inputs[trace.inputs.index(owner)]
            if name in vars(real):
                return trace.wrap(vars(real)[name], attribute(owner.source, name))
        if not hasattr(torch.Tensor, name):
            if owner.source is not None:
                trace.guards.add(
                    owner.source, f"not hasattr({{}}, {name!r})", f"{owner.source.name} has no {name}"
                )
            raise missing(owner, name)
        trace.classes.lookup(torch.Tensor, name)  # a method may be replaced
        return Bound(owner, name)
    if isinstance(owner, Obj):
        return _of_object(trace, owner, name)
    if isinstance(owner, New):
        return _of_new(trace, owner, name)
    if isinstance(owner, Super):
        return _of_super(trace, owner, name)
    if isinstance(owner, Const):
        return of_constant(trace, owner, name)
    if isinstance(owner, Func):
        return get_of_function(trace, owner, name)
    if isinstance(owner, BoundMethod):
        if name == "__self__":
            return owner.owner
        if name == "__func__":
            return owner.function
        return get(trace, owner.function, name)
    if isinstance(owner, Error):
        return _of_error(trace, owner, name)
    if type(owner) is PartialCall:
        parts = {
            "func": owner.function,
            "args": Seq(tuple, owner.args),
            "keywords": Dict(dict, owner.keywords),
        }
        if name in parts:
            return parts[name]
        raise missing(owner, name)
    return _of_container(trace, owner, name)


def get_plain(trace: Trace, owner: New | Obj, name: str) -> Value:
    """As object.__getattribute__ finds it, whatever the class says."""
    if isinstance(owner, Obj):
        return _of_object(trace, owner, name, plain=True)
    return _of_new(trace, owner, name, plain=True)


def _of_container(trace: Trace, owner: Value, name: str) -> Value:
    kinds: dict[type, type] = {IntRange: range, Slice: slice, Sym: int}
    kind = owner.kind if isinstance(owner, Seq | Dict | SetOf) else kinds.get(type(owner))
    if isinstance(owner, Slice) and name in ("start", "stop", "step"):
        return owner.parts[("start", "stop", "step").index(name)]
    if isinstance(owner, Seq) and hasattr(owner.kind, "_fields"):
        if name in owner.kind._fields:
            return trace.force(owner.items[owner.kind._fields.index(name)])
        member = trace.classes.lookup(owner.kind, name)
        if isinstance(member, types.FunctionType) and name not in ("_replace", "_asdict"):
            return BoundMethod(trace.function(member, None), owner)
        if isinstance(member, property) and isinstance(member.fget, types.FunctionType):
            return trace.call_value(trace.function(member.fget, None), [owner], {})
    if isinstance(owner, Seq) and owner.kind.__module__ == "torch.return_types":
        fields: tuple[str, ...] = getattr(owner.kind, "__match_args__", ())
        if name in fields:
            return trace.force(owner.items[fields.index(name)])
    if isinstance(owner, Iter) or (isinstance(owner, Array) and name in METHODS):
        return Bound(owner, name)
    if isinstance(owner, Array) and name in ATTRIBUTES:
        return from_python(getattr(owner.value, name))
    if kind is None:
        raise Unsupported(f"an attribute, {name}, of a {describe(owner)}")
    if name == "__class__":
        return Const(kind)
    if isinstance(owner, IntRange) and name in ("start", "stop", "step"):
        return Const(getattr(owner.value, name))
    if not hasattr(kind, name):
        raise missing(owner, name)
    return Bound(owner, name)


def _of_error(trace: Trace, owner: Error, name: str) -> Value:
    if name in owner.attributes:
        return owner.attributes[name]
    if name == "args" and not owner.is_exact:
        raise Unsupported("the message of an exception that capture foresaw is read")
    if name == "args":
        return Seq(tuple, list(owner.args))
    if name == "value" and owner.kind is StopIteration:
        return owner.args[0] if owner.args else Const(None)
    if name == "__class__":
        return Const(owner.kind)
    member = trace.classes.lookup(owner.kind, name)
    if isinstance(member, types.FunctionType):
        return BoundMethod(trace.function(member, None), owner)
    if member is MISSING:
        raise missing(owner, name)
    raise Unsupported(f"{name} of an exception")


def _bind(trace: Trace, member: Any, owner: Value, kind: type, name: str) -> Value:
    """A class attribute as an instance sees it."""
    if isinstance(member, types.FunctionType):
        function: Value = Const(member) if is_torch_leaf(member) else trace.function(member, None)
        return BoundMethod(function, owner)
    if isinstance(member, staticmethod):
        return constant_attribute(trace, member.__func__, Const(kind), name)
    if isinstance(member, classmethod):
        if isinstance(member.__func__, types.FunctionType):
            return BoundMethod(trace.function(member.__func__, None), Const(kind))
        return Bound(Const(kind), name)
    if isinstance(member, property):
        if not isinstance(member.fget, types.FunctionType):
            raise Unsupported(f"the property {name} is no Python function")
        return trace.call_value(trace.function(member.fget, None), [owner], {})
    if isinstance(member, functools.cached_property):
        if not isinstance(owner, New | Obj):
            raise Unsupported("a cached property")
        getter: Any = member.func
        made = trace.call_value(trace.function(getter, None), [owner], {})
        trace.keep_attribute(owner, name, made)
        return made
    if isinstance(
        member, types.MethodDescriptorType | types.WrapperDescriptorType | types.BuiltinFunctionType
    ):
        return Bound(owner, name)
    if isinstance(member, functools._lru_cache_wrapper):
        return BoundMethod(trace.wrap(member, _class_source(trace, kind, name)), owner)
    if hasattr(type(member), "__get__") and not isinstance(member, type):
        if isinstance(member, functools.partialmethod) or not isinstance(
            trace.classes.lookup(type(member), "__get__"), types.FunctionType
        ):
            raise Unsupported(f"the descriptor {type(member).__qualname__} ({name})")
        holder = trace.wrap(member, _class_source(trace, kind, name))
        return trace.call_value(get(trace, holder, "__get__"), [owner, Const(kind)], {})
    if is_constant_object(member) or is_torch_leaf(member):
        return Const(member)
    return trace.wrap(member, attribute(Source(None, trace.guards.constant(kind), kind.__name__), name))


def _class_source(trace: Trace, kind: type, name: str) -> Source:
    base = next(b for b in kind.__mro__ if name in vars(b))
    return item(attribute(Source(None, trace.guards.constant(base), base.__name__), "__dict__"), name)


def is_data_descriptor(member: Any) -> bool:
    """Whether a class's attribute comes before an instance's own."""
    return member is not MISSING and hasattr(type(member), "__get__") and hasattr(type(member), "__set__")


def _own_getattribute(trace: Trace, kind: type) -> types.FunctionType | None:
    member = trace.classes.lookup(kind, "__getattribute__")
    return member if isinstance(member, types.FunctionType) else None


def _refuse_kernel(value: Any) -> None:
    if type(value).__module__.startswith("triton."):
        called = getattr(value, "__name__", type(value).__qualname__)
        raise Unsupported(
            f"{called} is a Triton kernel of the user's own",
            "Make it one call of the graph: put its launch into a torch.library.custom_op, or a triton_op.",
        )


def _of_object(trace: Trace, owner: Obj, name: str, *, plain: bool = False) -> Value:
    kind = type(owner.value)
    _refuse_kernel(owner.value)
    own = _own_getattribute(trace, kind)
    if own is not None and not plain:
        return trace.call_value(trace.function(own, None), [owner, Const(name)], {})
    written = trace.attributes.get(owner, {})
    if name in written:
        if written[name] is DELETED:
            raise missing(owner, name)
        return written[name]
    if written and name in MODULE_STORES and isinstance(owner.value, torch.nn.Module):
        raise Unsupported(f"{name} of a module whose attributes were written to")
    if isinstance(owner.value, functools.partial):
        return _of_partial(trace, owner, name)
    member = trace.classes.lookup(kind, name)
    source = owner.source or Source(None, trace.guards.constant(owner.value), kind.__name__)
    if name == "__class__":
        return Const(kind)
    if name == "__dict__":
        attributes = trace.wrap(vars(owner.value), attribute(source, "__dict__"))
        for word, new in written.items():
            enter(trace, owner, attributes, word, new)
        return attributes
    if isinstance(member, types.MemberDescriptorType):
        value = getattr(owner.value, name, MISSING)
        if value is MISSING:
            raise missing(owner, name)
        return trace.wrap(value, attribute(source, name))
    if is_data_descriptor(member) and not isinstance(member, functools.cached_property):
        if isinstance(member, types.GetSetDescriptorType):
            raise Unsupported(f"the built-in attribute {name} of a {kind.__qualname__}")
        return _bind(trace, member, owner, kind, name)
    mine = getattr(owner.value, "__dict__", {})
    if (own_value := _entry(trace, mine, name, attribute(source, name))) is not None:
        return own_value
    if isinstance(owner.value, torch.nn.Module) and member is MISSING:
        for store in MODULE_STORES:
            place = item(attribute(source, store), name)
            if (held := _entry(trace, mine.get(store, {}), name, place)) is not None:
                return held
    if member is not MISSING:
        if mine is not None and hasattr(owner.value, "__dict__") and not isinstance(member, property):
            trace.guards.add(
                attribute(source, "__dict__"), f"{name!r} not in {{}}", f"{source.name} has no own {name}"
            )
        return _bind(trace, member, owner, kind, name)
    return _fallback(trace, owner, kind, name, source)


def enter(trace: Trace, owner: Obj, attributes: Value, name: str, value: Value) -> None:
    """Notes a write to an attribute in the dict that holds the object's attributes."""
    if isinstance(trace.classes.lookup(type(owner.value), name), types.MemberDescriptorType):
        return  # a slot, which lies elsewhere
    if not isinstance(attributes, Dict) or attributes.changed:
        raise Unsupported(f"{name} is set on an object whose attributes were looked at as a dict")
    trace.guard_keys(attributes)
    attributes.follows = True
    if value is not DELETED:
        attributes.items[name] = value
    elif name in attributes.items:
        attributes.remove(name)


def _entry(trace: Trace, store: dict[str, Any], name: str, place: Source) -> Value | None:
    """What a dict that holds attributes has under a name: what the code wrote into it, else what was there."""
    known = trace.known(store)
    if isinstance(known, Dict) and known.changed:
        written = known.items.get(name)
        return None if written is None else trace.force(written)
    return trace.wrap(store[name], place) if name in store else None


def _fallback(trace: Trace, owner: Value, kind: type, name: str, source: Source | None) -> Value:
    """``__getattr__``, else an AttributeError."""
    getter = trace.classes.lookup(kind, "__getattr__")
    if source is not None and isinstance(owner, Obj) and hasattr(owner.value, "__dict__"):
        own = attribute(source, "__dict__")
        trace.guards.add(own, f"{name!r} not in {{}}", f"{source.name} has no own {name}")
    if getter is not MISSING and getter is not torch.nn.Module.__getattr__:
        if not isinstance(getter, types.FunctionType):
            raise Unsupported(f"{kind.__qualname__}.__getattr__ is no Python function")
        return trace.call_value(trace.function(getter, None), [owner, Const(name)], {})
    if source is not None and getter is not MISSING:  # where nn.Module's own looks
        for store in MODULE_STORES:
            place = attribute(source, store)
            trace.guards.add(place, f"{name!r} not in {{}}", f"{place.name} has no {name}")
    elif source is not None:
        trace.guards.add(source, f"not hasattr({{}}, {name!r})", f"{source.name} has no {name}")
    raise missing(owner, name)


def _of_partial(trace: Trace, owner: Obj, name: str) -> Value:
    source = owner.source or Source(None, trace.guards.constant(owner.value), "partial")
    if name in ("func", "args", "keywords"):
        return trace.wrap(getattr(owner.value, name), attribute(source, name))
    raise Unsupported(f"{name} of a partial")


def _of_new(trace: Trace, owner: New, name: str, *, plain: bool = False) -> Value:
    own = _own_getattribute(trace, owner.kind)
    if own is not None and not plain:
        return trace.call_value(trace.function(own, None), [owner, Const(name)], {})
    if name == "__class__":
        return Const(owner.kind)
    member = trace.classes.lookup(owner.kind, name)
    if is_data_descriptor(member) and not isinstance(
        member, functools.cached_property | types.MemberDescriptorType
    ):
        if name == "__dict__":
            return Dict(dict, owner.attributes)
        return _bind(trace, member, owner, owner.kind, name)
    if name in owner.attributes:
        return trace.force(owner.attributes[name])
    if isinstance(member, types.MemberDescriptorType):
        raise missing(owner, name)
    if name == "__dict__":
        return Dict(dict, owner.attributes)
    if member is not MISSING:
        return _bind(trace, member, owner, owner.kind, name)
    return _fallback(trace, owner, owner.kind, name, None)


def _of_super(trace: Trace, owner: Super, name: str) -> Value:
    bound = owner.owner
    if isinstance(bound, Const) and isinstance(bound.value, type):
        start: type = bound.value if owner.kind in bound.value.__mro__ else type(bound.value)
    else:
        start = type(bound.value) if isinstance(bound, Obj | Const) else bound.kind  # type: ignore[attr-defined]
    order = start.__mro__
    member = trace.classes.lookup(start, name, after=owner.kind)
    if member is MISSING:
        raise missing(owner, name)
    base = next(base for base in order[order.index(owner.kind) + 1 :] if name in vars(base))
    if isinstance(member, types.FunctionType):
        function = trace.function(member, None)
        return function if isinstance(bound, Const) and name == "__new__" else BoundMethod(function, bound)
    if base in (object, *_STORAGES, collections.OrderedDict, BaseException, Exception):
        return Bound(Super(owner.kind, bound), name)
    if isinstance(bound, Const) and not isinstance(member, classmethod):
        raise Unsupported(f"super().{name} of a class")
    return _bind(trace, member, bound, start if isinstance(member, classmethod) else base, name)
