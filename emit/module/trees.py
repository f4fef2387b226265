"""Nested arguments and results as plain Python: what a call is given is unpacked, what it returns is put together."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch.utils._pytree as pytree

from longhand.capture.graph import CapturedGraph, Literal
from longhand.emit.module.view_calls import literal_text
from longhand.emit.names.words import is_attribute, own_name
from longhand.errors import CaptureError


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter of forward().

    Attributes:
        name: The user's.
        default: The value that the unit was specialized on, if it is one leaf that is no tensor.
        has_default: Whether there is such a value.
        leaves: (placeholder or Literal, expression that reaches it), for each leaf.
    """

    name: str
    default: Any
    has_default: bool
    leaves: tuple[tuple[str | Literal, str], ...]


def children(spec: pytree.TreeSpec) -> list[pytree.TreeSpec]:
    """The sub-trees, by whichever name this torch knows them."""
    if hasattr(spec, "children"):
        return list(spec.children())
    return list(spec.children_specs)


def parameters(graph: CapturedGraph) -> tuple[Parameter, ...]:
    """The parameters of the user's call, in the order of the user's signature."""
    args_spec, kwargs_spec = children(graph.in_spec)
    leaves = iter(graph.argument_leaves)
    found: list[Parameter] = []
    for place, spec in enumerate(children(args_spec)):
        name = graph.signature[place] if place < len(graph.signature) else f"argument_{place}"
        found.append(_parameter(own_name(name), spec, leaves))
    for key, spec in zip(kwargs_spec.context or [], children(kwargs_spec), strict=True):
        found.append(_parameter(own_name(str(key)), spec, leaves))
    order = {own_name(name): place for place, name in enumerate(graph.signature)}
    return tuple(sorted(found, key=lambda parameter: order.get(parameter.name, len(order))))


def _parameter(name: str, spec: pytree.TreeSpec, leaves: Iterator[str | Literal]) -> Parameter:
    paths = [(next(leaves), path) for path in _paths(spec, name)]
    literal = paths[0][0] if len(paths) == 1 and paths[0][1] == name else None
    is_literal = isinstance(literal, Literal)
    return Parameter(name, literal.value if isinstance(literal, Literal) else None, is_literal, tuple(paths))


def _paths(spec: pytree.TreeSpec, path: str) -> Iterator[str]:
    if spec.is_leaf():
        yield path
        return
    inner = children(spec)
    is_torchs = isinstance(spec.type, type) and spec.type.__module__ == "torch.return_types"
    if spec.type in (tuple, list) or is_torchs:
        steps = [f"[{place}]" for place in range(len(inner))]
    elif spec.type in (dict, collections.OrderedDict, collections.defaultdict):
        keys = spec.context[1] if spec.type is collections.defaultdict else spec.context
        steps = [f"[{_quoted(key)}]" for key in keys]
    elif _is_named(spec):
        steps = [f".{field}" for field in _fields(spec)]
    else:
        raise CaptureError(
            f"The argument {path} holds a {_type_name(spec.type)}, which generated code cannot take apart.",
            hint="Pass its tensors as arguments of their own.",
        )
    for step, child in zip(steps, inner, strict=True):
        yield from _paths(child, path + step)


def build_arguments(
    graph: CapturedGraph,
    variables: Mapping[str, str],
    imports: set[tuple[str, str]],
    lists: Mapping[str, str] | None = None,
) -> str:
    """The arguments of a call, in parentheses' place: ``x, mask=mask``.

    Args:
        graph: Says how the call is put together.
        variables: The variable of each placeholder.
        imports: The types that it names, (module, name), are added.
        lists: By their first placeholder: the variables that hold whole arguments.
    """
    args_spec, kwargs_spec = children(graph.in_spec)
    leaves = iter(graph.argument_leaves)

    def written(spec: pytree.TreeSpec) -> str:
        own = [next(leaves) for _ in range(spec.num_leaves)]
        first = own[0] if own else None
        if lists and isinstance(first, str) and first in lists:
            return lists[first]
        texts = [variables[leaf] if isinstance(leaf, str) else literal_text(leaf.value) for leaf in own]
        return build(spec, iter(texts), imports)

    positional = [written(spec) for spec in children(args_spec)]
    named = [
        f"{own_name(str(key))}={written(spec)}"
        for key, spec in zip(kwargs_spec.context or [], children(kwargs_spec), strict=True)
    ]
    return ", ".join([*positional, *named])


def build(spec: pytree.TreeSpec, values: Iterator[str], imports: set[tuple[str, str]]) -> str:
    """The expression that puts `values` together as `spec` says; types that it names are added to `imports`."""
    if spec.is_leaf():
        return next(values)
    parts = [build(child, values, imports) for child in children(spec)]
    if spec.type is tuple:
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    if spec.type is list:
        return f"[{', '.join(parts)}]"
    if spec.type is dict:
        return (
            "{"
            + ", ".join(f"{_quoted(key)}: {part}" for key, part in zip(spec.context, parts, strict=True))
            + "}"
        )
    if spec.type is collections.OrderedDict:
        imports.add(("collections", "OrderedDict"))
        pairs = ", ".join(f"({_quoted(key)}, {part})" for key, part in zip(spec.context, parts, strict=True))
        return f"OrderedDict([{pairs}])"
    if isinstance(spec.type, type) and spec.type.__module__ == "torch.return_types":
        return f"torch.return_types.{spec.type.__name__}(({', '.join(parts)}))"
    named = spec.context if spec.type is pytree.namedtuple else spec.type if spec.type is not None else None
    if isinstance(named, type) and _is_named(spec):
        imports.add((named.__module__, named.__qualname__))
        pairs = ", ".join(f"{field}={part}" for field, part in zip(_fields(spec), parts, strict=True))
        return f"{named.__qualname__}({pairs})"
    if isinstance(named, type) and issubclass(named, dict):
        keys = _keys(spec.context)
        imports.add((named.__module__, named.__qualname__))
        if keys is not None and len(keys) == len(parts) and all(is_attribute(str(key)) for key in keys):
            pairs = ", ".join(f"{key}={part}" for key, part in zip(keys, parts, strict=True))
            return f"{named.__qualname__}({pairs})"
    raise CaptureError(
        f"The call returns a {_type_name(spec.type)}, which generated code cannot put together.",
        hint="Return tensors in tuples, lists, dicts or dataclasses.",
    )


def _is_named(spec: pytree.TreeSpec) -> bool:
    if spec.type is pytree.namedtuple:
        return True
    return (
        isinstance(spec.type, type)
        and dataclasses.is_dataclass(spec.type)
        and not issubclass(spec.type, dict)
    )


def _fields(spec: pytree.TreeSpec) -> list[str]:
    if spec.type is pytree.namedtuple:
        return list(spec.context._fields)
    context = spec.context
    names = (
        context[0]
        if isinstance(context, list | tuple) and context and not isinstance(context[0], str)
        else context
    )
    if isinstance(names, list | tuple) and len(names) == len(children(spec)):
        return [str(name) for name in names]
    return [field.name for field in dataclasses.fields(spec.type)][: len(children(spec))]


def _keys(context: Any) -> list[Any] | None:
    """The keys of a mapping type that registered itself with pytree."""
    if isinstance(context, list | tuple):
        if context and isinstance(context[0], list | tuple):
            return list(context[0])
        return list(context)
    return list(context) if hasattr(context, "keys") or isinstance(context, set) else None


def _quoted(key: Any) -> str:
    return literal_text(key)


def _type_name(kind: Any) -> str:
    return getattr(kind, "__qualname__", str(kind))
