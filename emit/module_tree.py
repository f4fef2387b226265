"""The tree of modules that holds the parameters under the original's state_dict keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import torch
from torch import nn

from longhand.capture.graph import CapturedGraph, InputKind
from longhand.emit.constants import literal_of
from longhand.emit.quoting import python_string
from longhand.emit.words import identifier, is_attribute


@dataclasses.dataclass(frozen=True)
class Held:
    """A tensor that a module holds.

    Attributes:
        kind: Parameter, buffer or constant.
        shape: Its sizes.
        dtype: Its element type.
        persistent: Whether it is in the state_dict.
        source: For what is in no state_dict: the expression that makes its value.
        tied_to: The path of the tensor that this one is, if that has another path.
        channels_last: Whether it is made channels last: a convolution's weight.
    """

    kind: InputKind
    shape: tuple[int, ...]
    dtype: torch.dtype
    persistent: bool = True
    source: str = ""
    tied_to: str = ""
    channels_last: bool = False


@dataclasses.dataclass
class Branch:
    """A module: what it holds, and its sub-modules, in order."""

    held: dict[str, Held] = dataclasses.field(default_factory=dict)
    branches: dict[str, Branch] = dataclasses.field(default_factory=dict)

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

    def steps(self) -> Iterator[tuple[str, Branch, str]]:
        """Each sub-module's name, itself, and how it is reached from here: ``.attn``, ``[3]``, ``["3"]``."""
        is_list, is_dict = self.is_list, self.is_dict
        for name, branch in self.branches.items():
            yield name, branch, step_to_module(name, is_list, is_dict)

    def dtypes(self) -> set[torch.dtype]:
        """Of all parameters in it and below."""
        own = {held.dtype for held in self.held.values() if held.kind is InputKind.PARAMETER}
        return own.union(*(branch.dtypes() for branch in self.branches.values())) if self.branches else own


@dataclasses.dataclass(frozen=True)
class ModuleTree:
    """The root module and how each tensor is reached from it.

    Attributes:
        root: The tree.
        expressions: For each placeholder that the module feeds: ``W_q.weight``, ``h[0].ln_1.weight``.
        stored: Values that go into constants.pt, by name.
    """

    root: Branch
    expressions: Mapping[str, str]
    stored: Mapping[str, torch.Tensor]


def grow(graph: CapturedGraph, channels_last: frozenset[str] = frozenset()) -> ModuleTree:
    """The tree for all parameters, buffers and constants of a captured graph.

    Args:
        graph: What was captured.
        channels_last: Placeholders of the parameters that are made channels last.
    """
    root = Branch()
    stored: dict[str, torch.Tensor] = {}
    places: dict[str, str] = {}
    nodes = {node.name: node for node in graph.graph.nodes}
    branches: dict[str, Branch] = {}
    for entry in graph.inputs:
        if entry.kind in (InputKind.ARGUMENT, InputKind.SIZE):
            continue
        value = nodes[entry.node].meta["val"]
        source = ""
        path = entry.target
        in_state_dict = entry.kind is not InputKind.CONSTANT and entry.persistent
        if entry.kind is InputKind.CONSTANT:
            path = _constant_path(entry.target, root)
        if not in_state_dict:
            constant = graph.constants[entry.target]
            source = literal_of(constant) or f"constants[{python_string(entry.target)}]"
            if source.startswith("constants["):
                stored[entry.target] = constant
        owner, _, name = path.rpartition(".")
        if owner not in branches:
            branches[owner] = root.at(owner)
        branches[owner].held[name] = Held(
            entry.kind,
            tuple(map(int, value.shape)),
            value.dtype,
            in_state_dict,
            source,
            channels_last=entry.node in channels_last,
        )
        places[entry.node] = path
    for first, *others in graph.tied:
        owner, _, name = first.rpartition(".")
        held = root.at(owner).held[name]
        for other in others:
            other_owner, _, other_name = other.rpartition(".")
            root.at(other_owner).held[other_name] = dataclasses.replace(held, tied_to=first)
    return ModuleTree(root, _expressions(root, places), stored)


def _expressions(root: Branch, places: Mapping[str, str]) -> dict[str, str]:
    """How each tensor is reached: the modules are walked once."""
    heads: dict[str, tuple[Branch, str]] = {}

    def walk(branch: Branch, path: str, text: str) -> None:
        heads[path] = branch, text
        for name, inner, step in branch.steps():
            walk(inner, f"{path}.{name}" if path else name, f"{text}{step}" if text else step.lstrip("."))

    walk(root, "", "")
    found: dict[str, str] = {}
    for node, path in places.items():
        owner, _, name = path.rpartition(".")
        branch, text = heads[owner]
        step = step_to_tensor(branch, name)
        found[node] = f"{text}.{step}" if owner else step
    return found


def _constant_path(target: str, root: Branch) -> str:
    """Where a lifted constant is held: a plain word instead of torch's counter, unless it is taken."""
    word = identifier(target.rpartition(".")[2]).lstrip("_")
    if word.startswith(("tensor_constant", "lifted_tensor", "constant")):
        for choice in ("table", "constant", "lookup", "other_table", "other_constant"):
            if choice not in root.held and choice not in root.branches:
                return choice
    return word


def expression(root: Branch, path: str) -> str:
    """How a tensor is reached from the root: lists by position, gapped lists by key."""
    text, branch = "", root
    *owners, name = path.split(".")
    for part in owners:
        step = step_to_module(part, branch.is_list, branch.is_dict)
        text += step if text else step.lstrip(".")
        branch = branch.branches[part]
    step = step_to_tensor(branch, name)
    return f"{text}.{step}" if text else step


def module_expression(root: Branch, path: str) -> str:
    """How a module is reached from the root."""
    text, branch = "", root
    for part in path.split(".") if path else ():
        step = step_to_module(part, branch.is_list, branch.is_dict)
        text += step if text else step.lstrip(".")
        branch = branch.branches[part]
    return text


def step_to_module(name: str, is_list: bool = False, is_dict: bool = False) -> str:
    """How a module is reached from the one that holds it: ``.attn``, ``[3]``, ``["en-de"]``."""
    if is_list:
        return f"[{name}]"
    if is_dict:
        return f"[{python_string(name)}]"
    return f".{name}" if is_attribute(name) else f".get_submodule({python_string(name)})"


def step_to_tensor(owner: Branch, name: str) -> str:
    """How a tensor is reached from the module that holds it: ``weight``, in a ParameterList ``get_parameter("0")``."""
    if is_attribute(name):
        return name
    is_buffer = name in owner.held and owner.held[name].kind is not InputKind.PARAMETER
    return f"get_{'buffer' if is_buffer else 'parameter'}({python_string(name)})"


def member(expression: str) -> str:
    """The same from inside a method: ``self.ln_1.weight``, ``self[0].weight``."""
    return f"self{expression}" if expression.startswith("[") else f"self.{expression}"
