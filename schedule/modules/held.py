"""The tree of modules that holds the parameters under the original's state_dict keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
from torch import nn

from longhand.capture.graph import InputKind
from longhand.schedule.names.words import is_attribute


@dataclasses.dataclass(frozen=True)
class ByLayer:
    """A value that each layer of a list has for itself, under its own path.

    Attributes:
        owner: The path of the list.
        below: The tensor's path in a layer.
    """

    owner: str
    below: str


@dataclasses.dataclass(frozen=True)
class ValueOf:
    """The value of the graph's constant, or of its buffer that is in no state_dict, of that path."""

    path: str


@dataclasses.dataclass(frozen=True)
class HeldTensor:
    """A tensor that a module holds.

    Attributes:
        kind: Parameter, buffer or constant.
        shape: Its sizes; in a function that makes the weights of several modules the words for them.
        dtype: Its element type.
        persistent: Whether it is in the state_dict.
        source: For what is in no state_dict: the first tensor that has its value, or which of the layer's own it is.
        tied_to: The path of the tensor that this one is, if that has another path.
        channels_last: Whether it is made channels last: a convolution's weight.
        strides: How it lies in memory, if that is not contiguous and the kernels rely on it.
    """

    kind: InputKind
    shape: tuple[int | str, ...]
    dtype: torch.dtype
    persistent: bool = True
    source: ByLayer | ValueOf | None = None
    tied_to: str = ""
    channels_last: bool = False
    strides: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
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

    @property
    def varies_by_layer(self) -> bool:
        """Whether it holds, itself or below, a value that another layer of its class has not."""
        return any(isinstance(held.source, ByLayer) for held in self.held.values()) or any(
            branch.varies_by_layer for branch in self.branches.values()
        )

    def n_parameters(self) -> int:
        """How many parameters it holds, itself and below."""
        own = sum(held.kind is InputKind.PARAMETER for held in self.held.values())
        return own + sum(branch.n_parameters() for branch in self.branches.values())

    def dtypes(self) -> set[torch.dtype]:
        """Of all parameters in it and below."""
        own = {held.dtype for held in self.held.values() if held.kind is InputKind.PARAMETER}
        return own.union(*(branch.dtypes() for branch in self.branches.values())) if self.branches else own


ModuleSignature = tuple[object, ...]  # what two modules have in common that hold the same but for sizes


@dataclasses.dataclass(frozen=True)
class WeightFunction:
    """A function that makes the weights of modules which hold the same but for sizes.

    Attributes:
        name: ``conv_norm_weights``.
        held_by: Which of the user's classes: ``ConvNorm holds``.
        parameters: Its parameters.
        places: For each: which of all sizes that a module holds it is, the first one.
        pattern: What it makes, the sizes in its words.
    """

    name: str
    held_by: str
    parameters: tuple[str, ...]
    places: tuple[int, ...]
    pattern: Branch


@dataclasses.dataclass(frozen=True)
class HeldModules:
    """What the module of a pass holds.

    Attributes:
        root: The tree.
        places: For each placeholder that the module feeds: its path in the tree.
        sources: Where the values come from that are in no state_dict, by target.
        functions: What makes the weights of several modules; those that are called by others come last.
    """

    root: Branch = dataclasses.field(default_factory=Branch)
    places: Mapping[str, str] = dataclasses.field(default_factory=dict)
    sources: Mapping[str, ByLayer | ValueOf] = dataclasses.field(default_factory=dict)
    functions: Mapping[ModuleSignature, WeightFunction] = dataclasses.field(default_factory=dict)
