"""The tree of modules that holds the parameters under the original's state_dict keys.

And where the values of tensors come from that a module holds and no state_dict has.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Protocol

import torch
from torch import nn

from longhand.capture.graph import CapturedGraph, GraphInput, InputKind
from longhand.emit.module.constants import literal_of
from longhand.emit.text.quoting import python_string
from longhand.lower.ir import Buffer, BufferKind
from longhand.schedule.named_plan import Reached
from longhand.schedule.names.words import identifier, is_attribute


@dataclasses.dataclass(frozen=True)
class ByLayer:
    """An entry of constants.pt for each layer of a list: ``constants[f"layers.{layer}.cos"]``.

    Attributes:
        owner: The path of the list.
        below: The tensor's path in a layer.
    """

    owner: str
    below: str

    def expression(self, layer: str) -> str:
        """What reads it, given the word for the layer's number."""
        if all(part.isidentifier() or part.isdigit() for part in f"{self.owner}.{self.below}".split(".")):
            return f'constants[f"{self.owner}.{{{layer}}}.{self.below}"]'
        before, after = python_string(f"{self.owner}."), python_string(f".{self.below}")
        return f"constants[{before} + str({layer}) + {after}]"


@dataclasses.dataclass(frozen=True)
class HeldValues:
    """The values of a graph's constants and of its buffers that are in no state_dict.

    Attributes:
        sources: By target: the expression that makes the value, or which of the layer's own it is.
        literals: The targets whose values are written out.
        stored: What constants.pt holds, by name.
    """

    sources: Mapping[str, str | ByLayer]
    literals: frozenset[str]
    stored: Mapping[str, torch.Tensor]


def is_in_state_dict(entry: GraphInput) -> bool:
    """Whether the original's state_dict has an input that the module holds."""
    return entry.kind is not InputKind.CONSTANT and entry.persistent


def held_values(graph: CapturedGraph, layers: Mapping[str, frozenset[int]]) -> HeldValues:
    """Where each value comes from.

    Args:
        graph: What was captured.
        layers: By the path of a list: the positions of those of its layers that share a class.
    """
    held = (InputKind.ARGUMENT, InputKind.SIZE)
    targets = [
        entry.target for entry in graph.inputs if entry.kind not in held and not is_in_state_dict(entry)
    ]
    values = {target: graph.constants[target] for target in targets}
    contents = {target: _content(value, target) for target, value in values.items()}
    places = {target: _place(target, layers) for target in values}
    kinds: dict[ByLayer, set[object]] = {}
    for target, place in places.items():
        if place is not None:
            kinds.setdefault(place, set()).add(contents[target])
    sources: dict[str, str | ByLayer] = {}
    stored: dict[str, torch.Tensor] = {}
    entries: dict[object, str] = {}
    literals: set[str] = set()
    for target, value in values.items():
        place = places[target]
        if place is not None and len(kinds[place]) > 1:
            sources[target], stored[target] = place, value
            continue
        literal = literal_of(value)
        if literal is None:
            entry = entries.setdefault(contents[target], target)
            stored.setdefault(entry, value)
        else:
            literals.add(target)
        sources[target] = literal or f"constants[{python_string(entry)}]"
    return HeldValues(sources, frozenset(literals), stored)


def _place(target: str, layers: Mapping[str, frozenset[int]]) -> ByLayer | None:
    """Where in a layer a tensor is held, if the layer shares its class."""
    for owner, positions in layers.items():
        position, _, below = target.removeprefix(f"{owner}.").partition(".")
        if target.startswith(f"{owner}.") and below and position.isdigit() and int(position) in positions:
            return ByLayer(owner, below)
    return None


def _content(value: torch.Tensor, target: str) -> object:
    """What two tensors have in common whose values are the same, bit by bit."""
    if value.layout is not torch.strided or value.is_quantized:
        return target
    plain = value.detach().cpu().contiguous().reshape(-1)
    return value.dtype, tuple(value.shape), plain.view(torch.uint8).numpy().tobytes()


_OF_MODULES = frozenset({*dir(nn.Module), "launch"})


@dataclasses.dataclass(frozen=True)
class HeldTensor:
    """A tensor that a module holds.

    Attributes:
        kind: Parameter, buffer or constant.
        shape: Its sizes; in a function that makes the weights of several modules the words for them.
        dtype: Its element type.
        persistent: Whether it is in the state_dict.
        source: For what is in no state_dict: the expression that makes its value, or which of the layer's own it is.
        is_literal: Whether that expression says the value itself.
        tied_to: The path of the tensor that this one is, if that has another path.
        channels_last: Whether it is made channels last: a convolution's weight.
        strides: How it lies in memory, if that is not contiguous and the kernels rely on it.
    """

    kind: InputKind
    shape: tuple[int | str, ...]
    dtype: torch.dtype
    persistent: bool = True
    source: str | ByLayer = ""
    is_literal: bool = False
    tied_to: str = ""
    channels_last: bool = False
    strides: tuple[int, ...] = ()


@dataclasses.dataclass
class Branch:
    """A module: what it holds, and its sub-modules, in order.

    Attributes:
        held: Its tensors, by name.
        branches: Its sub-modules, by name.
        is_gap: Whether it only keeps a place in a list: it computes nothing, and nobody calls it.
    """

    held: dict[str, HeldTensor] = dataclasses.field(default_factory=dict)
    branches: dict[str, Branch] = dataclasses.field(default_factory=dict)
    is_gap: bool = False

    def at(self, path: str) -> Branch:
        """The sub-module at a dotted path; made where there is none."""
        branch = self
        for part in path.split(".") if path else ():
            branch = branch.branches.setdefault(part, Branch())
        return branch

    @property
    def is_list(self) -> bool:
        """Whether its sub-modules are numbered 0, 1, 2, ... and it holds nothing else."""
        return (
            bool(self.branches)
            and not self.held
            and list(self.branches) == [str(i) for i in range(len(self.branches))]
        )

    @property
    def is_dict(self) -> bool:
        """Whether its sub-modules go by keys that are no attributes (``en-de``, gaps in numbers) and all it holds."""
        return (
            not self.held
            and not self.is_list
            and not all(map(is_attribute, self.branches))
            and not any(hasattr(nn.ModuleDict, key) for key in self.branches)
        )

    def steps(self) -> Iterator[tuple[str, Branch, str | int]]:
        """Each sub-module's name, itself, and the step to it from here: ``.attn``, 3, ``["3"]``."""
        is_list, is_dict = self.is_list, self.is_dict
        for name, branch in self.branches.items():
            yield name, branch, _step_to_module(name, is_list, is_dict)

    @property
    def varies_by_layer(self) -> bool:
        """Whether it holds, itself or below, a value that another layer of its class has not."""
        return any(isinstance(held.source, ByLayer) for held in self.held.values()) or any(
            branch.varies_by_layer for branch in self.branches.values()
        )

    def dtypes(self) -> set[torch.dtype]:
        """Of all parameters in it and below."""
        own = {held.dtype for held in self.held.values() if held.kind is InputKind.PARAMETER}
        return own.union(*(branch.dtypes() for branch in self.branches.values())) if self.branches else own


class WeightFunction(Protocol):
    """A function that makes the weights of modules which hold the same but for sizes."""

    name: str
    module: str
    parameters: tuple[str, ...]
    pattern: Branch

    def arguments(self, branch: Branch) -> str:
        """What it is given to make one of the modules."""


Likeness = tuple[object, ...]  # what two modules have in common that hold the same but for sizes


@dataclasses.dataclass(frozen=True)
class ModuleTree:
    """The root module and how each tensor is reached from it.

    Attributes:
        root: The tree.
        expressions: For each placeholder that the module feeds: ``W_q.weight``, ``h[0].ln_1.weight``.
        stored: Values that go into constants.pt, by name.
        functions: What makes the weights of several modules that hold the same but for sizes.
    """

    root: Branch
    expressions: Mapping[str, Reached]
    stored: Mapping[str, torch.Tensor]
    functions: Mapping[Likeness, WeightFunction] = dataclasses.field(default_factory=dict)


def grow(
    graph: CapturedGraph,
    buffers: Mapping[str, Buffer],
    channels_last: frozenset[str],
    layers: Mapping[str, frozenset[int]],
) -> ModuleTree:
    """The tree for all parameters, buffers and constants of a captured graph.

    Args:
        graph: What was captured.
        buffers: How the placeholders lie in memory.
        channels_last: Placeholders of the parameters that are made channels last.
        layers: By the path of a list: the positions of those of its layers that share a class.
    """
    root = Branch()
    values = held_values(graph, layers)
    places: dict[str, str] = {}
    nodes = {node.name: node for node in graph.graph.nodes}
    branches: dict[str, Branch] = {}
    for entry in graph.inputs:
        if entry.kind in (InputKind.ARGUMENT, InputKind.SIZE):
            continue
        value = nodes[entry.node].meta["val"]
        path = entry.target
        if entry.kind is InputKind.CONSTANT:
            path = _constant_path(entry.target, root, graph.is_module)
        owner, _, name = path.rpartition(".")
        if owner not in branches:
            branches[owner] = root.at(owner)
        branches[owner].held[name] = HeldTensor(
            entry.kind,
            tuple(map(int, value.shape)),
            value.dtype,
            is_in_state_dict(entry),
            values.sources.get(entry.target, ""),
            entry.target in values.literals,
            channels_last=entry.node in channels_last,
            strides=() if entry.node in channels_last else _odd_strides(buffers.get(entry.node)),
        )
        places[entry.node] = path
    for first, *others in graph.tied:
        owner, _, name = first.rpartition(".")
        held = root.at(owner).held[name]
        for other in others:
            other_owner, _, other_name = other.rpartition(".")
            root.at(other_owner).held[other_name] = dataclasses.replace(held, tied_to=first)
    for owner in layers:
        _fill_gaps(root.at(owner))
    _number_in_order(root)
    return ModuleTree(root, _expressions(root, places), values.stored)


def _odd_strides(buffer: Buffer | None) -> tuple[int, ...]:
    """The strides of a tensor that is not contiguous; of one that no kernel reads, none."""
    if buffer is None or buffer.is_contiguous:
        return ()
    return tuple(int(step) for step in buffer.stride)


def _fill_gaps(layers: Branch) -> None:
    """Keeps the places of layers that hold nothing (a skipped layer, ``nn.Identity``): a loop counts by places."""
    if all(name.isdigit() for name in layers.branches):
        for number in range(max(map(int, layers.branches), default=0)):
            layers.branches.setdefault(str(number), Branch(is_gap=True))


def _number_in_order(branch: Branch) -> None:
    """Puts the members of lists into order: those that hold only what others hold, too, came last."""
    if branch.branches and all(name.isdigit() for name in branch.branches):
        branch.branches = dict(sorted(branch.branches.items(), key=lambda item: int(item[0])))
    for child in branch.branches.values():
        _number_in_order(child)


def _expressions(root: Branch, places: Mapping[str, str]) -> dict[str, Reached]:
    """How each tensor is reached: the modules are walked once."""
    heads: dict[str, tuple[Branch, Reached]] = {}

    def walk(branch: Branch, path: str, module: Reached) -> None:
        heads[path] = branch, module
        for name, inner, step in branch.steps():
            walk(inner, f"{path}.{name}" if path else name, _module_in(module, step))

    walk(root, "", Reached())
    found: dict[str, Reached] = {}
    for node, path in places.items():
        owner, _, name = path.rpartition(".")
        branch, module = heads[owner]
        found[node] = _tensor_in(module, branch, name)
    return found


def _constant_path(target: str, root: Branch, is_module: bool) -> str:
    """Where a constant is held: where the model holds it. What it does not hold is at the root, by a plain word."""
    if is_module and "." in target:
        return target
    word = identifier(target.rpartition(".")[2]).lstrip("_")
    choices = [word, *(f"{word}_{number}" for number in range(2, 2 + len(root.held)))]
    if not word or word.startswith(("tensor_constant", "lifted_tensor", "constant")):
        choices = ["table", "constant", "lookup", "other_table", "other_constant", *choices[bool(word) :]]
    taken = {*root.held, *root.branches, *_OF_MODULES}
    return next(choice for choice in choices if choice not in taken)


def expression(root: Branch, path: str) -> Reached:
    """How a tensor is reached from the root: lists by position, gapped lists by key."""
    owner, _, name = path.rpartition(".")
    return _tensor_in(module_expression(root, owner), root.at(owner), name)


def module_expression(root: Branch, path: str) -> Reached:
    """How a module is reached from the root."""
    module, branch = Reached(), root
    for part in path.split(".") if path else ():
        module = _module_in(module, _step_to_module(part, branch.is_list, branch.is_dict))
        branch = branch.branches[part]
    return module


def _module_in(owner: Reached, step: str | int) -> Reached:
    """How a module is reached by way of the one that holds it."""
    return Reached(*owner.steps, step if owner or isinstance(step, int) else step.lstrip("."))


def _tensor_in(owner: Reached, branch: Branch, name: str) -> Reached:
    step = step_to_tensor(branch, name)
    return Reached(*owner.steps, f".{step}" if owner else step)


def _step_to_module(name: str, is_list: bool = False, is_dict: bool = False) -> str | int:
    """The step to a module from the one that holds it: ``.attn``, 3, ``["en-de"]``."""
    if is_list:
        return int(name)
    if is_dict:
        return f"[{python_string(name)}]"
    return f".{name}" if is_attribute(name) else f".get_submodule({python_string(name)})"


def step_to_tensor(owner: Branch, name: str) -> str:
    """How a tensor is reached from the module that holds it: ``weight``, in a ParameterList ``get_parameter("0")``."""
    if is_attribute(name):
        return name
    is_buffer = name in owner.held and owner.held[name].kind is not InputKind.PARAMETER
    return f"get_{'buffer' if is_buffer else 'parameter'}({python_string(name)})"


def member(expression: Reached, owner: str = "self") -> Reached:
    """The same from inside a method, or of another module: ``self.ln_1.weight``, ``self["0"].weight``."""
    first, *rest = expression.steps
    is_key = isinstance(first, str) and first.startswith("[")
    return Reached(owner, first if isinstance(first, int) or is_key else f".{first}", *rest)


def open_layouts(buffers: Mapping[str, Buffer]) -> frozenset[str]:
    """The parameters that no kernel reads and whose layout is therefore open."""
    return frozenset(
        buffer.name
        for buffer in buffers.values()
        if buffer.kind is BufferKind.WEIGHT and not buffer.layout_is_known
    )
