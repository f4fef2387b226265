"""How the modules and tensors of the tree are reached, and how the values are written that no state_dict has."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch

from longhand.capture.graph import CapturedGraph, InputKind
from longhand.emit.module.constants import literal_of
from longhand.emit.text.quoting import python_string
from longhand.schedule.named_plan import (
    Branch,
    ByLayer,
    HeldModules,
    ModuleSignature,
    Reached,
    ValueOf,
    WeightFunction,
)
from longhand.schedule.names.words import is_attribute


@dataclasses.dataclass(frozen=True)
class HeldValue:
    """How the value is written of what is in no state_dict.

    Attributes:
        text: The expression that makes it.
        is_literal: Whether that says the value itself.
    """

    text: str
    is_literal: bool


@dataclasses.dataclass(frozen=True)
class ModuleTree:
    """The root module and how each tensor is reached from it.

    Attributes:
        root: The tree.
        expressions: For each placeholder that the module feeds: ``W_q.weight``, ``h[0].ln_1.weight``.
        values: How the value of a path is written that tensors have, for what is in no state_dict.
        stored: Values that go into constants.pt, by name.
        functions: What makes the weights of several modules that hold the same but for sizes.
        called: Those of them that what was written so far calls, by name.
    """

    root: Branch
    expressions: Mapping[str, Reached]
    values: Mapping[str, HeldValue]
    stored: Mapping[str, torch.Tensor]
    functions: Mapping[ModuleSignature, WeightFunction]
    called: set[str] = dataclasses.field(default_factory=set)

    @classmethod
    def of(cls, modules: HeldModules, graph: CapturedGraph) -> ModuleTree:
        """The tree of a pass as it is written."""
        values: dict[str, HeldValue] = {}
        stored: dict[str, torch.Tensor] = {}
        for target, source in modules.sources.items():
            path = source.path if isinstance(source, ValueOf) else target
            literal = literal_of(graph.constants[path]) if isinstance(source, ValueOf) else None
            if literal is None:
                stored[path] = graph.constants[path]
            values[path] = HeldValue(literal or f"constants[{python_string(path)}]", literal is not None)
        expressions = _expressions(modules.root, modules.places)
        return cls(modules.root, expressions, values, stored, modules.functions)

    def value_of(self, source: ByLayer | ValueOf, layer: str) -> HeldValue:
        """How a value is written, given the word for the layer's number: ``constants[f"layers.{layer}.cos"]``."""
        if isinstance(source, ValueOf):
            return self.values[source.path]
        owner, below = source.owner, source.below
        if all(part.isidentifier() or part.isdigit() for part in f"{owner}.{below}".split(".")):
            return HeldValue(f'constants[f"{owner}.{{{layer}}}.{below}"]', is_literal=False)
        before, after = python_string(f"{owner}."), python_string(f".{below}")
        return HeldValue(f"constants[{before} + str({layer}) + {after}]", is_literal=False)


def _expressions(root: Branch, places: Mapping[str, str]) -> dict[str, Reached]:
    """How each tensor is reached: the modules are walked once."""
    heads: dict[str, tuple[Branch, Reached]] = {}

    def walk(branch: Branch, path: str, module: Reached) -> None:
        heads[path] = branch, module
        is_list, is_dict = branch.is_list, branch.is_dict
        for name, inner in branch.branches.items():
            step = _step_to_module(name, is_list, is_dict)
            walk(inner, f"{path}.{name}" if path else name, _module_in(module, step))

    walk(root, "", Reached())
    expressions: dict[str, Reached] = {}
    for node, path in places.items():
        owner, _, name = path.rpartition(".")
        branch, module = heads[owner]
        expressions[node] = _tensor_in(module, branch, name)
    return expressions


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
