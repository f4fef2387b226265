"""The constructor of model.py's class: the lines that make its parameters, in the original's tree."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import torch

from longhand.capture.graph import InputKind
from longhand.emit.module.module_tree import ModuleTree, expression, member
from longhand.emit.text.quoting import python_string
from longhand.options import Device
from longhand.schedule.named_plan import (
    Branch,
    HeldTensor,
    Reached,
    WeightFunction,
    held_sizes,
    module_signature,
)
from longhand.schedule.names.words import is_attribute


@dataclasses.dataclass(frozen=True)
class Construction:
    """Lines of ``__init__``.

    Attributes:
        base: The class's base: nn.Module, or Weights where the root itself holds tensors.
        base_arguments: What the base's constructor is given.
        members: One line for each sub-module.
        runtime_names: What the lines import from runtime.py.
        uses_nn: Whether they, or the base, name something of torch.nn.
    """

    base: str
    base_arguments: str
    members: list[str]
    runtime_names: set[str]
    uses_nn: bool


@dataclasses.dataclass(frozen=True)
class BlockClass:
    """The class of some blocks of a list.

    Attributes:
        name: The class.
        positions: The blocks that are called by its methods.
        made: Its constructor, which further blocks of the list may have too.
        position: The word for a block's place in the list, if the constructor takes that.
        arguments: What else it is given.
    """

    name: str
    positions: frozenset[int]
    made: Construction
    position: str = ""
    arguments: str = ""


def construct(tree: ModuleTree, blocks: Mapping[str, Sequence[BlockClass]]) -> Construction:
    """The constructor of the root.

    Args:
        tree: The modules.
        blocks: The classes of repeated blocks, by the path of the list that holds them.
    """
    return _construct(tree.root, _ConstructorWriter(tree.root, blocks, tree))


def construct_block(tree: ModuleTree, path: str, layer: str = "") -> Construction:
    """The constructor of a repeated block's class; what the block shares with others is tied to it from outside.

    Args:
        tree: All modules.
        path: The path of a block that it can make.
        layer: Its argument that is the block's place in its list, if it takes one.
    """
    block = _without_ties_to_outside(tree.root.at(path), f"{path}.")
    return construct_branch(block, tree, layer)


def construct_branch(branch: Branch, tree: ModuleTree, layer: str = "") -> Construction:
    """The constructor of a class that holds what a module does."""
    return _construct(branch, _ConstructorWriter(branch, {}, tree, layer))


def write_weight_functions(
    tree: ModuleTree, runtime_names: set[str], imports: set[str]
) -> list[WeightFunctionText]:
    """The functions that make the weights of several modules, each before those that call it, with what they import.

    What nothing calls that was written before (classes of layers hold it now) is left out.
    """
    writer = _ConstructorWriter(tree.root, {}, tree)
    texts = [
        WeightFunctionText(one.name, one.held_by, one.parameters, writer.weights(one.pattern, "")[1])
        for one in tree.functions.values()  # who calls comes before what is called
        if one.name in tree.called
    ]
    runtime_names |= writer.names
    imports |= {"from torch import nn"} if writer.uses_nn else set()
    return texts[::-1]


def _without_ties_to_outside(branch: Branch, inside: str) -> Branch:
    """A block without the tensors of others; the paths of those that it holds twice begin in the block itself."""
    held = {
        name: dataclasses.replace(one, tied_to=one.tied_to.removeprefix(inside))
        for name, one in branch.held.items()
        if not one.tied_to or one.tied_to.startswith(inside)
    }
    below = {name: _without_ties_to_outside(child, inside) for name, child in branch.branches.items()}
    return Branch(held, below)


def _construct(root: Branch, writer: _ConstructorWriter) -> Construction:
    if root.is_list or root.is_dict:  # nn.Sequential: its children are self[0], self[1], ...
        container, children = writer.container(root, "")
        return Construction(container, children, [], writer.names, writer.uses_nn)
    members = [
        _assigned(name, writer.module(branch, name), "module") for name, branch in root.branches.items()
    ]
    arguments = writer.members(root, "", only_held=True)
    base = "Weights" if root.held else writer.of_nn("Module")
    if root.held:
        writer.names.add("Weights")
        tied = [name for name, held in root.held.items() if held.tied_to]
        for name in tied:
            holder = member(expression(root, root.held[name].tied_to))
            kind = "buffer" if root.held[name].kind is InputKind.BUFFER else "parameter"
            members.append(_assigned(name, holder, kind))
    return Construction(base, ", ".join(arguments), [*members, *writer.ties], writer.names, writer.uses_nn)


@dataclasses.dataclass(frozen=True)
class WeightFunctionText:
    """A function that makes the weights of modules which hold the same but for sizes.

    Attributes:
        name: ``conv_norm_weights``.
        held_by: Which of the user's classes: ``ConvNorm holds``.
        parameters: The sizes in which they differ.
        made: The expression that it returns.
    """

    name: str
    held_by: str
    parameters: tuple[str, ...]
    made: str


@dataclasses.dataclass(frozen=True)
class _MadeBlock:
    """What makes a block of a list.

    Attributes:
        text: A class, or the whole expression.
        is_class: Which of these.
        position: The class's argument that is the block's place in its list, if it takes one.
    """

    text: str
    is_class: bool
    position: str = ""

    def at(self, place: str) -> str:
        """The expression for the block at a place."""
        return f"{self.text}({place if self.position else ''})" if self.is_class else self.text


class _ConstructorWriter:
    def __init__(
        self,
        root: Branch,
        blocks: Mapping[str, Sequence[BlockClass]],
        tree: ModuleTree,
        layer: str = "",
    ) -> None:
        self.root = root
        self.blocks = blocks
        self.tree = tree
        self.layer = layer
        self.names: set[str] = set()
        self.ties: list[str] = []
        self.uses_nn = False
        self._n_ties_inside = 0  # tensors that are made by the path of another one

    def of_nn(self, text: str) -> str:
        """Something of torch.nn, which the file must import."""
        self.uses_nn = True
        return f"nn.{text}"

    def module(self, branch: Branch, path: str) -> str:
        """The expression that makes a sub-module."""
        container, given = self.container(branch, path)
        return f"{container}({given})"

    def container(self, branch: Branch, path: str) -> tuple[str, str]:
        """The class of a sub-module, and what its constructor is given."""
        if branch.is_gap:
            return self.of_nn("Identity"), ""
        if branch.is_list and path in self.blocks:
            made = [self.block(child, _below(path, key), int(key)) for key, child in branch.branches.items()]
            return self.of_nn("ModuleList"), _blocks_in_list(made)
        if branch.is_list:
            n_ties = self._n_ties_inside
            parts = [self.module(child, _below(path, key)) for key, child in branch.branches.items()]
            if len(parts) > 1 and len(set(parts)) == 1 and self._n_ties_inside == n_ties:
                return self.of_nn("ModuleList"), f"{parts[0]} for _ in range({len(parts)})"
            return self.of_nn("ModuleList"), f"[{', '.join(parts)}]"
        if branch.is_dict:
            pairs = ", ".join(
                f"{python_string(key)}: {self.module(child, _below(path, key))}"
                for key, child in branch.branches.items()
            )
            return self.of_nn("ModuleDict"), f"{{{pairs}}}"
        alike = module_signature(branch) if self.tree.functions else None
        function = self.tree.functions.get(alike) if alike is not None else None
        if function is not None and not any(owner.startswith(f"{path}.") for owner in self.blocks):
            self.tree.called.add(function.name)
            return function.name, _sizes_given(function, branch)
        return self.weights(branch, path)

    def weights(self, branch: Branch, path: str) -> tuple[str, str]:
        """A module that is made of its tensors and modules."""
        self.names.add("Weights")
        return "Weights", ", ".join(self.members(branch, path))

    def block(self, branch: Branch, path: str, position: int) -> _MadeBlock:
        """What makes a block: its class, one that holds the same, or plain weights."""
        classes = self.blocks[path.rpartition(".")[0]]
        like = [one for one in classes if position in one.positions]
        if not like and not any(f"{owner}.".startswith(f"{path}.") for owner in self.blocks):
            # Lists inside that are looped over are of classes of their own, which no block's class makes.
            like = [one for one in classes if self.made_by_class(path, one.position) == one.made]
        if not like:
            return _MadeBlock(self.module(branch, path), is_class=False)
        self.tie_to_outside(branch, path, f"{path}.")
        if like[0].arguments:
            return _MadeBlock(f"{like[0].name}({like[0].arguments})", is_class=False)
        return _MadeBlock(like[0].name, is_class=True, position=like[0].position)

    def made_by_class(self, path: str, position: str) -> Construction:
        """What the constructor of a block's class would be."""
        return construct_block(self.tree, path, position)

    def tie(self, path: str, tied_to: str) -> None:
        """A line that makes a tensor another one, once both are there."""
        holder = Reached(*member(expression(self.root, path)).steps[:-1])
        name = path.rpartition(".")[2]
        self.names.add("tie")
        self.ties.append(f"tie({holder}, {python_string(name)}, {member(expression(self.root, tied_to))})")

    def tie_to_outside(self, branch: Branch, path: str, inside: str) -> None:
        """Ties what a block's class leaves out."""
        for name, held in branch.held.items():
            if held.tied_to and not held.tied_to.startswith(inside):
                self.tie(f"{path}.{name}", held.tied_to)
        for name, child in branch.branches.items():
            self.tie_to_outside(child, f"{path}.{name}", inside)

    def members(self, branch: Branch, path: str, only_held: bool = False) -> list[str]:
        """Keyword arguments of Weights."""
        keywords: list[str] = []
        own = {
            held.dtype
            for held in branch.held.values()
            if held.kind is InputKind.PARAMETER and not held.tied_to and not held.channels_last
        }
        dtype = next(iter(own)) if len(own) == 1 else torch.float32
        if dtype is not torch.float32:
            keywords.append(f"dtype={dtype}")
        made: dict[str, str] = {}
        for name, held in branch.held.items():
            if held.tied_to and path and held.tied_to.partition(".")[0] == path.partition(".")[0]:
                self.tie(f"{path}.{name}", held.tied_to)  # both are inside of what is being made
                continue
            if not (held.tied_to and only_held):  # the root's own are tied once all is there
                made[name] = self.tensor(held, dtype)
        if not only_held:
            made |= {name: self.module(child, _below(path, name)) for name, child in branch.branches.items()}
        # What a ParameterList holds is named 0, 1, 2, ...; a state_dict may have any keys.
        if all(is_attribute(name) and name != "dtype" for name in made):
            return keywords + [f"{name}={text}" for name, text in made.items()]
        words = (f"{python_string(name)}: {text}" for name, text in made.items())
        return [f"{{{', '.join(words)}}}", *keywords]

    def tensor(self, held: HeldTensor, dtype: torch.dtype) -> str:
        """The expression that makes a parameter or buffer."""
        if held.tied_to:
            self._n_ties_inside += 1
            return member(expression(self.root, held.tied_to))
        shape = f"({', '.join(map(str, held.shape))}{',' * (len(held.shape) == 1)})"
        if held.source:
            self.names.add("constant")
            return f"constant({self.tree.value_of(held.source, self.layer).text})"
        if held.channels_last:
            self.names.add("filters")
            dtype_text = "" if held.dtype is torch.float32 else f", dtype={held.dtype}"
            return f"filters({', '.join(map(str, held.shape))}{dtype_text})"
        if held.strides:
            dtype_text = "" if held.dtype is torch.float32 else f", dtype={held.dtype}"
            made = f"torch.empty_strided({shape}, {held.strides}{dtype_text})"
            return self.of_nn(f"Parameter({made}, False)") if held.kind is InputKind.PARAMETER else made
        if held.kind is InputKind.PARAMETER:
            return (
                shape
                if held.dtype == dtype
                else self.of_nn(f"Parameter(torch.empty({shape}, dtype={held.dtype}), False)")
            )
        self.names.add("buffer")
        return f"buffer({shape}{'' if held.dtype is torch.float32 else f', {held.dtype}'})"


def _sizes_given(function: WeightFunction, branch: Branch) -> str:
    """What a function is given to make one of its modules."""
    sizes = [one.size for one in held_sizes(branch)]
    return ", ".join(str(sizes[place]) for place in function.places)


def _below(path: str, name: str) -> str:
    """The path of a member; the root's own is empty."""
    return f"{path}.{name}" if path else name


def _assigned(name: str, made: str, kind: str) -> str:
    """``self.h = ...``; what is no attribute is registered."""
    return (
        f"self.{name} = {made}"
        if is_attribute(name)
        else f"self.register_{kind}({python_string(name)}, {made})"
    )


def _blocks_in_list(blocks: Sequence[_MadeBlock]) -> str:
    """What ``nn.ModuleList`` is given: ``Block() for _ in range(12)``, or runs of equal blocks one after the other."""
    rounds = _in_turn(blocks)
    if rounds is not None:
        before, kinds, n_rounds = rounds
        made = ", ".join(one.text for one in kinds)
        whole = f"layer() for _ in range({n_rounds}) for layer in ({made})"
        first, after = blocks[:before], blocks[before + n_rounds * len(kinds) :]
        if not first and not after:
            return whole
        texts = [*(one.at(one.position) for one in first), f"*({whole})"]
        return f"[{', '.join([*texts, *(one.at(one.position) for one in after)])}]"
    texts, begin = [], 0
    for one, group in itertools.groupby(blocks):
        count = len(list(group))
        end = begin + count
        if count == 1:
            texts.append(one.at(str(begin)))
        else:
            span = f"{begin}, {end}" if one.position and begin else f"{count}"
            run = f"{one.at(one.position)} for {one.position or '_'} in range({span})"
            if count == len(blocks):
                return run
            texts.append(f"*({run})")
        begin = end
    return f"[{', '.join(texts)}]"


def _in_turn(blocks: Sequence[_MadeBlock]) -> tuple[int, Sequence[_MadeBlock], int] | None:
    """(blocks before, the kinds of one round, rounds) where blocks of several classes come in turn."""
    for before in range(len(blocks) // 2):
        for period in range(2, (len(blocks) - before) // 2 + 1):
            kinds = blocks[before : before + period]
            n_rounds = 1
            while blocks[before + n_rounds * period :][:period] == kinds:
                n_rounds += 1
            plain = all(one.is_class and not one.position for one in kinds)
            if n_rounds > 1 and plain and len(set(kinds)) > 1 and before < period:
                return before, kinds, n_rounds
    return None


def constants_of_function(tree: ModuleTree, variables: Mapping[str, str], device: str) -> list[str]:
    """Lines for the constants of a function, at the top level of its module.

    Args:
        tree: What holds them.
        variables: The word of each.
        device: Where the function runs: ``cuda``.
    """
    lines = [f'constants = load_constants("{device}")'] if tree.stored else []
    for node, path in tree.expressions.items():
        source = tree.root.held[path].source
        assert source is not None  # a function has no parameters
        value = tree.value_of(source, "")
        move = "" if device == Device.CPU.value or not value.is_literal else f'.to("{device}")'
        lines.append(f"{variables[node]} = {value.text}{move}")
    return lines
