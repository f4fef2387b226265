"""Writing attributes of tracked values, by Python's own rules."""

from __future__ import annotations

import functools
import types

import torch

from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.trace import DELETED, Trace
from longhand.capture.bytecode.values.attributes import MODULE_STORES, enter, has, is_data_descriptor
from longhand.capture.bytecode.values.constants import describe
from longhand.capture.bytecode.values.function_attributes import missing, put_of_function
from longhand.capture.bytecode.values.tracked import BoundMethod, Const, Error, Func, New, Obj, Tensor, Value

__all__ = ["put"]


def put(trace: Trace, owner: Value, name: str, value: Value, *, plain: bool = False) -> None:
    """``owner.name = value``; DELETED deletes.

    Args:
        plain: As object.__setattr__ does it, whatever the class says.
    """
    owner = trace.force(owner)
    if isinstance(owner, Func) and owner.real is None:
        put_of_function(owner, name, value)
        return
    if isinstance(owner, Error):
        owner.attributes[name] = value
        return
    if not isinstance(owner, New | Obj):
        raise Unsupported(f"an attribute, {name}, of a {describe(owner)} is set")
    kind = type(owner.value) if isinstance(owner, Obj) else owner.kind
    special = "__delattr__" if value is DELETED else "__setattr__"
    setter = trace.classes.lookup(kind, special)
    of_module = setter in (torch.nn.Module.__setattr__, torch.nn.Module.__delattr__)
    if isinstance(setter, types.FunctionType) and not of_module and not plain:
        given: list[Value] = [Const(name)] if value is DELETED else [Const(name), value]
        trace.call_value(BoundMethod(trace.function(setter, None), owner), given, {})
        return
    if of_module and _is_itself(trace, owner, name, trace.force(value)):
        return
    if of_module:
        _check_module_write(owner, name, trace.force(value))
    member = trace.classes.lookup(kind, name)
    if isinstance(member, property):
        if value is DELETED or not isinstance(member.fset, types.FunctionType):
            raise Unsupported(f"the property {name} is set")
        trace.call_value(trace.function(member.fset, None), [owner, value], {})
        return
    if is_data_descriptor(member) and not isinstance(
        member, types.MemberDescriptorType | functools.cached_property
    ):
        raise Unsupported(f"the descriptor {name} is set")
    if isinstance(owner, New):
        if value is DELETED:
            if name not in owner.attributes:
                raise missing(owner, name)
            del owner.attributes[name]
        else:
            owner.attributes[name] = value
        return
    _follow(trace, owner, name, value)
    written = trace.attributes.setdefault(owner, {})
    if value is DELETED:
        _delete(trace, owner, name, written)
    elif written.get(name) is DELETED:
        raise Unsupported(f"{name} is deleted and set again")  # the order of attributes is another one then
    else:
        written[name] = value


def _delete(trace: Trace, owner: Obj, name: str, written: dict[str, Value]) -> None:
    if not has(trace, owner, name):
        raise missing(owner, name)
    kind = type(owner.value)
    is_slot = isinstance(trace.classes.lookup(kind, name), types.MemberDescriptorType)
    is_there = hasattr(owner.value, name) if is_slot else name in vars(owner.value)
    if is_there:
        written[name] = DELETED
    elif name in written:  # set by this very code: as if it never was
        if owner.source is not None:
            lacks = f"not hasattr({{}}, {name!r})" if is_slot else f"{name!r} not in {{}}.__dict__"
            trace.guards.add(owner.source, lacks, f"{owner.source.name} has no own {name}")
        del written[name]
    else:
        raise Unsupported(f"{name}, which is the class's, is deleted")


def _follow(trace: Trace, owner: Obj, name: str, value: Value) -> None:
    """Where the code looked at the object's ``__dict__``, it sees the write; a module's other stores would not."""
    own = getattr(owner.value, "__dict__", {})
    if isinstance(owner.value, torch.nn.Module):
        stores = [own.get(store, {}) for store in MODULE_STORES]
        if any(name in store and trace.known(store) is not None for store in stores):
            raise Unsupported(f"{name} is set on an object whose attributes were looked at as a dict")
    looked_at = trace.known(own)
    if looked_at is not None:
        enter(trace, owner, looked_at, name, value)


def _is_itself(trace: Trace, owner: New | Obj, name: str, value: Value) -> bool:
    """Whether a submodule is put where it is already: nothing happens."""
    if not isinstance(owner, Obj) or not isinstance(value, Obj) or name in trace.attributes.get(owner, {}):
        return False
    is_there = vars(owner.value)["_modules"].get(name) is value.value and name not in vars(owner.value)
    return is_there and trace.get_attribute(owner, name) is value


def _check_module_write(owner: New | Obj, name: str, value: Value) -> None:
    is_special = (isinstance(value, Obj) and isinstance(value.value, torch.nn.Module)) or (
        isinstance(value, New) and issubclass(value.kind, torch.nn.Module)
    )
    is_parameter = isinstance(value, Tensor) and value.kind is not torch.Tensor
    if isinstance(owner, New):
        if is_special or is_parameter or value is DELETED:
            raise Unsupported("a module with parameters or submodules is made inside the captured code")
        return
    state = vars(owner.value)
    if (
        name in state["_parameters"]
        or name in state["_modules"]
        or is_special
        or is_parameter
        or value is DELETED
    ):
        raise Unsupported(f"a parameter or submodule, {name}, is replaced")
