"""What a plan makes out of nothing in each call becomes a constant that the unit holds: no kernel is without input.

Which values those are, fusion decides: most of what no input decides is computed where it is read. Of what would be
written to memory for itself, the same in each call, the values are computed here, by torch, on this machine's CPU.

On the CPU they are what eager makes. On CUDA what every device rounds alike is computed ahead: whole numbers, bools,
and of floats sums, products and what merely moves them. The last place of a logarithm may be another there, so it is
computed ahead only where nothing is decided by it: one that fell into another bucket would be another index. And there
the unit must have weights: whoever moves them to the GPU moves what it holds, too, while a model without any computes
wherever its arguments are.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import fx

from longhand.capture.functionalize.dead_code import remove_dead_code
from longhand.capture.graph import CapturedGraph, GraphInput, InputKind
from longhand.capture.known.decisions import call_name, decides
from longhand.capture.known.ranges import is_progression, is_read_as_places, range_of_numbers, tell_range
from longhand.capture.known.tables import placeholder_for, unused_word
from longhand.capture.known.written import written_nodes
from longhand.capture.provenance import Provenance
from longhand.options import Device

# A larger one is made in each call: it would stand in the repository.
_MOST_BYTES = 1024 * 1024
# Ops whose results are as they are on every device, whatever the dtype.
_ALIKE_TEXT = """
    full zeros ones scalar_tensor reshape view permute transpose t expand select slice unsqueeze squeeze
    split_with_sizes unbind split diagonal alias flip roll repeat cat stack constant_pad_nd clone contiguous getitem
    add sub rsub mul neg abs maximum minimum clamp clamp_min clamp_max eq ne lt le gt ge where masked_fill tril triu
    logical_and logical_or logical_not bitwise_and bitwise_or bitwise_not bitwise_xor relu sign floor ceil trunc
"""
_ALIKE = frozenset(_ALIKE_TEXT.split())
# Further ones, of whole numbers.
_OF_INTEGERS_TEXT = (
    "arange sum prod cumsum any all amax amin remainder floor_divide div gather index_select index eye"
)
_OF_INTEGERS = frozenset(_OF_INTEGERS_TEXT.split())
# Further ones, of floats by which nothing is decided.
_SMOOTH_TEXT = """
    arange linspace logspace pow exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal div mean sum prod
    cumsum sin cos tan tanh sinh cosh asin acos atan asinh acosh atanh sigmoid softplus erf
"""
_SMOOTH = frozenset(_SMOOTH_TEXT.split())
_CASTS = frozenset(["_to_copy", "to"])
_UNKNOWN = frozenset(
    ["empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"]
)


def with_held(captured: CapturedGraph, names: Collection[str], device: Device) -> CapturedGraph:
    """The captured graph with a constant for each of these nodes that no input decides; itself where there is none.

    Args:
        captured: The graph for that device.
        names: The nodes that a plan writes to memory without reading anything.
        device: Decides what may be computed ahead.
    """
    weights = (InputKind.PARAMETER, InputKind.BUFFER)
    if device is Device.CUDA and not any(entry.kind in weights for entry in captured.inputs):
        return captured
    graph = captured.graph
    seen_outside = set(_behind_views([node for node in graph.nodes if node.op == "output"]))
    written = written_nodes(graph)
    values = {
        node: value
        for node in graph.nodes
        if node.name in names and node not in seen_outside
        if (value := _value(node, device, written)) is not None
    }
    values = {node: values[node] for node in _read(graph, values)}
    if not values:
        return captured
    inputs, constants = captured.inputs, dict(captured.constants)
    for alike in _equal_nodes(graph, values, written):
        node = alike[0]
        taken = [part for entry in inputs for part in (entry.target, entry.target.partition(".")[0])]
        target = unused_word(_word(node), taken)
        placeholder = placeholder_for(graph, target, node.meta["val"])
        inputs = (*inputs, GraphInput(placeholder.name, InputKind.CONSTANT, target))
        constants[target] = next(values[one] for one in alike if one in values)
        tell_range(placeholder, range_of_numbers(constants[target]))
        for one in alike:
            if one not in seen_outside:
                one.replace_all_uses_with(placeholder)
    remove_dead_code(graph)
    return dataclasses.replace(captured, inputs=inputs, constants=constants)


def _read(graph: fx.Graph, values: Mapping[fx.Node, torch.Tensor]) -> list[fx.Node]:
    """Those of the nodes that are read for anything but the value of another one of them, in the graph's order."""
    seen: set[fx.Node] = set()
    waiting = [node for node in graph.nodes if node.op == "output" or node.is_impure()]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += [] if node in values else node.all_input_nodes
    return [node for node in graph.nodes if node in values and node in seen]


def _equal_nodes(
    graph: fx.Graph, wanted: Collection[fx.Node], written: Collection[fx.Node]
) -> list[list[fx.Node]]:
    """Each of the wanted nodes among all that are made by the same calls, in order: every layer may make its own.

    If one layer's were held and the others' made, the layers would differ. What is written into is equal to nothing.
    """
    numbers: dict[tuple[object, ...], int] = {}
    known: dict[fx.Node, int] = {}
    groups: dict[int, list[fx.Node]] = {}
    for node in graph.nodes:
        is_made = node.op == "call_function" and node not in written
        if is_made and all(source in known for source in node.all_input_nodes):
            # A number among the arguments is none that stands for a call: that one is text.
            numbered = fx.map_arg((node.args, node.kwargs), lambda one: f"made by call {known[one]}")
            key = (node.target, repr(numbered), str(node.meta.get("val")))
            known[node] = numbers.setdefault(key, len(numbers))
            groups.setdefault(known[node], []).append(node)
    return [groups[number] for number in dict.fromkeys(known[node] for node in graph.nodes if node in wanted)]


def _word(node: fx.Node) -> str:
    """The user's name for the value; else that of the first one with a name that it goes into, as its table.

    Places that others are read from or written to do not go into these: ``x[torch.arange(n)]`` is made of x.
    """
    if Provenance.of(node).local is None and is_progression(node):
        return "positions"
    seen = {node}
    waiting = [node]
    for one in waiting:  # grows: the nearest come first
        told: Provenance = Provenance.of(one)
        if told.local:
            return told.local if one is node else f"{told.local}_table"
        read = [user for user in one.users if user not in seen and not is_read_as_places(user, one)]
        waiting += read
        seen.update(read)
    return f"{call_name(node)}_table"


def _behind_views(nodes: list[fx.Node]) -> Iterator[fx.Node]:
    """What these read, and what that is a view of: the caller may write into it."""
    waiting = [argument for node in nodes for argument in node.all_input_nodes]
    while waiting:
        node = waiting.pop()
        yield node
        if call_name(node) == "getitem" or _is_view(node):
            waiting += node.all_input_nodes[:1]


def _is_view(node: fx.Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return any(result.alias_info is not None for result in target._schema.returns)


def _value(node: fx.Node, device: Device, written: Collection[fx.Node]) -> torch.Tensor | None:
    """What the node yields in every call; None if that is not known, or not the same on every device."""
    given = node.meta.get("val")
    if not isinstance(given, torch.Tensor) or not all(isinstance(size, int) for size in given.shape):
        return None
    if not given.is_contiguous() or given.numel() * given.dtype.itemsize > _MOST_BYTES:
        return None
    needed = _needed(node)
    if needed is None or not all(one not in written and _is_certain(one, device) for one in needed):
        return None
    known: dict[fx.Node, Any] = {}
    for one in needed:
        args = fx.map_arg(one.args, known.__getitem__)
        kwargs = fx.map_arg(one.kwargs, known.__getitem__)
        if "device" in kwargs:
            kwargs = {**kwargs, "device": "cpu"}
        known[one] = one.target(*args, **kwargs)  # type: ignore[operator]
    value = known[node]
    is_as_told = isinstance(value, torch.Tensor) and (value.shape, value.dtype) == (given.shape, given.dtype)
    return value.contiguous().clone() if is_as_told else None


def _needed(node: fx.Node) -> list[fx.Node] | None:
    """The calls that make a node's value, in order; None if an input is among what they read."""
    calls: dict[fx.Node, None] = {}
    waiting = [(node, False)]
    while waiting:
        one, is_ready = waiting.pop()
        if is_ready:
            calls[one] = None
        elif one.op != "call_function":
            return None
        elif one not in calls:
            waiting.append((one, True))
            waiting += [(source, False) for source in one.all_input_nodes]
    return list(calls)


def _is_certain(node: fx.Node, device: Device) -> bool:
    """Whether a call yields the same each time, and what the device would make of it."""
    name, value = call_name(node), node.meta.get("val")
    if name in _UNKNOWN:
        return False
    if isinstance(node.target, torch._ops.OpOverload):
        if torch.Tag.nondeterministic_seeded in node.target.tags or node.target._schema.is_mutable:
            return False
    elif name != "getitem":
        return False
    if device is Device.CPU:
        return True
    if name in _CASTS:
        return True
    if isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16):
        return False  # a number beside it is rounded to 16 bits or is not
    if name in _SMOOTH and _is_float(value) and not decides(node):
        return True
    is_scaled_sum = name in ("add", "sub", "rsub") and node.kwargs.get("alpha", 1) != 1
    is_whole = isinstance(value, torch.Tensor) and not value.dtype.is_floating_point
    if name == "div" and node.kwargs.get("rounding_mode") is None and len(node.args) == 2:
        return _is_power_of_two(node.args[1])
    if name in _OF_INTEGERS or is_scaled_sum:
        return is_whole and all(_is_whole(source) for source in node.all_input_nodes)
    return name in _ALIKE


def _is_whole(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return (
        isinstance(value, torch.Tensor) and not value.dtype.is_floating_point and not value.dtype.is_complex
    )


def _is_float(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point


def _is_power_of_two(number: object) -> bool:
    """Whether a division by it, or a product with what is one over it, is exact."""
    return isinstance(number, int | float) and number > 0 and math.frexp(number)[0] == 0.5
