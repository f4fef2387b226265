"""Nested arguments and results as plain Python: what a call is given is unpacked, what it returns put together.

Some are lists of tensors, which stay lists: which ones, and how they are written.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import fx

from longhand.capture.graph import CapturedGraph, InputKind, Literal
from longhand.emit.text.expression import literal_text
from longhand.emit.text.python_code import (
    Code,
    ItemCode,
    NameCode,
    SeveralCode,
    SliceCode,
    names,
    whole_number,
)
from longhand.errors import CaptureError
from longhand.lower.ir import memory_order
from longhand.schedule.named_plan import UnitNames, children, parameters_in_order
from longhand.schedule.names.words import is_attribute, own_name
from longhand.schedule.plan import Access, Allocate, Launch, UnitPlan


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


def parameters(graph: CapturedGraph) -> tuple[Parameter, ...]:
    """The parameters of the user's call, in the order of the user's signature."""
    return tuple(_parameter(name, spec, leaves) for name, spec, leaves in parameters_in_order(graph))


def _parameter(name: str, spec: pytree.TreeSpec, leaves: Sequence[str | Literal]) -> Parameter:
    paths = list(zip(leaves, _paths(spec, name), strict=True))
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


def build(
    spec: pytree.TreeSpec,
    values: Iterator[str],
    imports: set[tuple[str, str]],
    lists: Mapping[tuple[str, ...], str] | None = None,
    is_bare: bool = False,
) -> str:
    """The expression that puts values together.

    Args:
        spec: How they hang together.
        values: The texts of the leaves.
        imports: The types that it names, (module, name), are added.
        lists: By all their entries: the variables that hold lists.
        is_bare: Whether a tuple is to be without its parentheses.
    """
    if spec.is_leaf():
        return next(values)
    parts = [build(child, values, imports, lists) for child in children(spec)]
    if spec.type is tuple:
        listed = f"{', '.join(parts)}{',' * (len(parts) == 1)}"
        return listed if is_bare else f"({listed})"
    if spec.type is list:
        if lists and (whole := lists.get(tuple(parts))):
            return whole
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


@dataclasses.dataclass(frozen=True)
class TensorList:
    """An argument of the call that is a list of tensors, which kernels take as a whole.

    Attributes:
        name: The parameter.
        nodes: Its placeholders, in order.
        dtypes: Of its tensors.
        shapes: Of its tensors.
        is_contiguous: Whether all of them are.
        constant: The word of the module's constant that holds the shapes.
    """

    name: str
    nodes: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...]
    shapes: tuple[tuple[int, ...], ...]
    is_contiguous: bool
    constant: str = ""

    @property
    def is_uniform(self) -> bool:
        """Whether one check covers all of its tensors."""
        return self.is_contiguous and len(set(self.dtypes)) == 1


def find_lists(
    plan: UnitPlan, parameters: Sequence[Parameter], nodes: Mapping[str, fx.Node]
) -> tuple[TensorList, ...]:
    """The arguments that are flat lists of tensors of known sizes, and that some kernel takes tensors of as a list."""
    listed = {
        name
        for step in plan.steps
        if isinstance(step, Launch) and plan.kernels[step.kernel].schedule.is_over_lists
        for name in step.touched
    }
    kinds = {entry.node: entry.kind for entry in plan.program.graph.inputs}
    lists: list[TensorList] = []
    constants: dict[tuple[tuple[int, ...], ...], str] = {}
    for parameter in parameters:
        leaves = [leaf for leaf, _ in parameter.leaves if isinstance(leaf, str)]
        paths = [path for _, path in parameter.leaves]
        is_flat = paths == [f"{parameter.name}[{place}]" for place in range(len(paths))]
        if not is_flat or len(leaves) != len(paths) or not listed.intersection(leaves):
            continue
        values = [nodes[leaf].meta["val"] for leaf in leaves]
        if any(kinds[leaf] is not InputKind.ARGUMENT for leaf in leaves) or not all(map(_is_static, values)):
            continue
        shapes = tuple(tuple(value.shape) for value in values)
        word = constants.setdefault(shapes, f"{parameter.name.upper()}_SHAPES" if constants else "SHAPES")
        dtypes = tuple(value.dtype for value in values)
        is_contiguous = all(value.is_contiguous() for value in values)
        lists.append(TensorList(parameter.name, tuple(leaves), dtypes, shapes, is_contiguous, word))
    return tuple(lists)


def _is_static(value: torch.Tensor) -> bool:
    return all(isinstance(size, int) for size in value.shape)


@dataclasses.dataclass(frozen=True)
class MadeList:
    """A list of tensors that a launch makes.

    Attributes:
        name: The variable.
        nodes: The buffers, in order.
        like: The list whose tensors have the same shapes and dtypes; None if the launch reads no such list.
    """

    name: str
    nodes: tuple[str, ...]
    like: tuple[str, ...] | None


def find_made_lists(plan: UnitPlan, names: UnitNames, taken: set[str]) -> tuple[MadeList, ...]:
    """The lists whose tensors are all allocated for one launch, which fills them.

    Args:
        plan: The unit's plan.
        names: Its words.
        taken: Words that stand for something else.
    """
    allocated = {step.buffer for step in plan.steps if isinstance(step, Allocate)}
    lists: list[MadeList] = []
    for step in plan.steps:
        if not isinstance(step, Launch) or not plan.kernels[step.kernel].schedule.is_over_lists:
            continue
        kernel = plan.kernels[step.kernel]
        columns = [
            tuple(group.buffers[place] for group in step.groups) for place in range(len(kernel.pointers))
        ]
        for pointer, buffers in zip(kernel.pointers, columns, strict=True):
            if not pointer.many or not allocated.issuperset(buffers) or pointer.access is not Access.WRITE:
                continue
            word = names.kernels[step.kernel].lists[pointer.name]
            while word in taken:
                word = f"new_{word}"
            taken.add(word)
            read = [
                other
                for source, other in zip(kernel.pointers, columns, strict=True)
                if source.many and source.access is not Access.WRITE
            ]
            lists.append(
                MadeList(word, buffers, next((r for r in read if _are_alike(plan, buffers, r)), None))
            )
            allocated -= set(buffers)
    return tuple(lists)


def _are_alike(plan: UnitPlan, made: Sequence[str], read: Sequence[str]) -> bool:
    """Whether each tensor is as the one in its place: contiguous, of the same shape and dtype."""
    pairs = [(plan.buffers[one], plan.buffers[other]) for one, other in zip(made, read, strict=True)]
    return all(
        (one.dtype, one.shape, one.stride) == (other.dtype, other.shape, other.stride)
        and memory_order(one) == list(range(len(one.shape)))
        for one, other in pairs
    )


def list_code(
    buffers: Sequence[str], variables: Mapping[str, str], lists: Sequence[TensorList | MadeList]
) -> Code:
    """The expression for a list of buffers: an argument, a part of one, or its tensors one by one."""
    for one in lists:
        if buffers and buffers[0] in one.nodes:
            start = one.nodes.index(buffers[0])
            end = start + len(buffers)
            if one.nodes[start:end] == tuple(buffers):
                first = whole_number(start) if start else None
                last = whole_number(end) if end < len(one.nodes) else None
                is_whole = first is None and last is None
                whole = NameCode(one.name)
                return whole if is_whole else ItemCode(whole, (SliceCode(first, last),))
    return SeveralCode(names(variables[buffer] for buffer in buffers), "[]")


def shape_lines(lists: Sequence[TensorList]) -> list[str]:
    """The constants that hold the shapes: ``SHAPES = [(512, 64), *[(64,), (64, 64)] * 4]``."""
    return [
        f"{word} = {_shapes_text(shapes)}"
        for word, shapes in {one.constant: one.shapes for one in lists}.items()
    ]


def _shapes_text(shapes: Sequence[tuple[int, ...]]) -> str:
    """A list of shapes, what repeats itself once."""
    repeat = _longest_repeat(shapes)
    if repeat is None:
        return f"[{', '.join(map(str, shapes))}]"
    start, period, count = repeat
    end = start + period * count
    parts = [*map(str, shapes[:start]), f"*[{', '.join(map(str, shapes[start : start + period]))}] * {count}"]
    return f"[{', '.join([*parts, *map(str, shapes[end:])])}]"


def _longest_repeat(shapes: Sequence[object]) -> tuple[int, int, int] | None:
    """(start, period, count) of the repetition that spares most; None where it spares less than half a list."""
    best: tuple[int, int, int] | None = None
    spared = len(shapes) // 2
    for period in range(1, len(shapes) // 2 + 1):
        run = 0
        for place in range(len(shapes) - period, -1, -1):
            is_equal = place + period < len(shapes) and shapes[place] == shapes[place + period]
            run = run + 1 if is_equal else 0
            count = run // period + 1
            if count > 1 and (count - 1) * period > spared:
                best, spared = (place, period, count), (count - 1) * period
    return best
