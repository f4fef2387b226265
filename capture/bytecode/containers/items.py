"""Items of tracked values: read, set, deleted."""

from __future__ import annotations

import enum
import operator

import torch

from longhand.capture.bytecode.calls import transforms
from longhand.capture.bytecode.calls.tensors import operate
from longhand.capture.bytecode.entry.breaks import Raised, Unsupported
from longhand.capture.bytecode.trace import Trace
from longhand.capture.bytecode.values.constants import NotConstant, as_key, as_python, describe, fold
from longhand.capture.bytecode.values.operators import is_none
from longhand.capture.bytecode.values.tracked import (
    Array,
    Bound,
    Const,
    Dict,
    DictView,
    Error,
    IntRange,
    New,
    Obj,
    Seq,
    Tensor,
    Value,
)

__all__ = ["delete_item", "get_item", "set_item", "store"]


class ModuleSlice(list):
    """Stands for the container that slicing a ModuleList makes, as long as it is only iterated over."""


class SequentialSlice(ModuleSlice):
    """The same of a Sequential, which may be called, too."""


def store(trace: Trace, owner: Dict, key: Value, value: Value) -> None:
    """``owner[key] = value`` for a dict that capture made or that is already marked as changed."""
    python = as_key(trace, key)
    if python not in owner.items:  # the first of equal keys stays
        owner.keys[python] = key
    owner.items[python] = value


def get_item(trace: Trace, owner: Value, key: Value) -> Value:
    """``owner[key]``."""
    owner, key = trace.force(owner), trace.force(key)
    if isinstance(owner, Tensor):
        indexed = transforms.index(trace, owner, key)
        return operate(trace, operator.getitem, [owner, key]) if indexed is None else indexed
    if isinstance(owner, DictView):
        raise Unsupported("an item of a dict's view")
    if isinstance(owner, Seq):
        if isinstance(key, Tensor):
            raise NotConstant("a list is indexed by a tensor")
        where = as_python(trace, key)
        if isinstance(where, slice):
            is_named = hasattr(owner.kind, "_fields") or owner.kind.__module__ == "torch.return_types"
            kind = tuple if is_named else owner.kind
            return Seq(kind, owner.items[where])
        try:
            value = trace.force(owner.items[where])
        except (IndexError, TypeError) as error:
            raise Raised(Error(type(error), trace.constants(error.args))) from None
        owner.items[where] = value
        return value
    if isinstance(owner, Dict):
        python = as_key(trace, key)
        trace.guard_key(owner, python)
        if python not in owner.items:
            if owner.factory is not None and not is_none(trace, owner.factory):
                made = trace.call_value(owner.factory, [], {})
                set_item(trace, owner, key, made)
                return made
            raise Raised(Error(KeyError, [key], is_exact=True))
        owner.items[python] = trace.force(owner.items[python])
        return owner.items[python]
    if isinstance(owner, IntRange | Array):
        return fold(operator.getitem, owner.value, as_python(trace, key))
    if isinstance(owner, Const) and isinstance(owner.value, str | bytes | type | enum.EnumMeta):
        return fold(operator.getitem, owner.value, as_python(trace, key))
    if isinstance(owner, Obj) and isinstance(owner.value, torch.nn.ModuleList | torch.nn.Sequential):
        where = as_python(trace, key)
        if isinstance(where, slice):
            modules = trace.get_attribute(owner, "_modules")
            assert isinstance(modules, Dict)
            trace.guard_keys(modules)
            kind = SequentialSlice if isinstance(owner.value, torch.nn.Sequential) else ModuleSlice
            return Seq(kind, list(modules.items.values())[where])
    if isinstance(owner, New | Obj | Bound):
        return trace.call_value(trace.get_special(owner, "__getitem__"), [key], {})
    if isinstance(owner, Const):
        return fold(operator.getitem, owner.value, as_python(trace, key))
    raise Unsupported(f"an item of a {describe(owner)}")


def set_item(trace: Trace, owner: Value, key: Value, value: Value) -> None:
    """``owner[key] = value``."""
    owner, key = trace.force(owner), trace.force(key)
    if isinstance(owner, Tensor):
        operate(trace, operator.setitem, [owner, key, value])
    elif isinstance(owner, Seq) and not issubclass(owner.kind, tuple):
        where = as_python(trace, key)
        given = trace.all_items(value) if isinstance(where, slice) else value
        trace.changing(owner)
        try:
            owner.items[where] = given
        except (IndexError, TypeError, ValueError) as error:
            raise Raised(Error(type(error), trace.constants(error.args))) from None
    elif isinstance(owner, Dict):
        trace.changing(owner)
        store(trace, owner, key, value)
    elif isinstance(owner, New | Obj):
        trace.call_value(trace.get_special(owner, "__setitem__"), [key, value], {})
    else:
        raise Unsupported(f"an item of a {describe(owner)} is set")


def delete_item(trace: Trace, owner: Value, key: Value) -> None:
    """``del owner[key]``."""
    owner, key = trace.force(owner), trace.force(key)
    if isinstance(owner, Seq) and not issubclass(owner.kind, tuple):
        trace.changing(owner)
        where = as_python(trace, key)
        try:
            del owner.items[where]
        except (IndexError, TypeError) as error:
            raise Raised(Error(type(error), trace.constants(error.args))) from None
    elif isinstance(owner, Dict):
        python = as_key(trace, key)
        trace.changing(owner)
        if python not in owner.items:
            raise Raised(Error(KeyError, [key], is_exact=True))
        owner.remove(python)
    elif isinstance(owner, New | Obj):
        trace.call_value(trace.get_special(owner, "__delitem__"), [key], {})
    else:
        raise Unsupported(f"an item of a {describe(owner)} is deleted")
