"""The module that a function of model.py has at hand, and how others, and what they hold, are reached from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from longhand.emit.module.module_tree import Branch, member, module_expression
from longhand.emit.text.python_code import CallCode, Code, LiteralCode, NameCode, SeveralCode, names
from longhand.schedule.named_plan import Reached


@dataclasses.dataclass(frozen=True)
class ModulePlace:
    """The module that a function has at hand.

    Attributes:
        root: Of all modules.
        path: Its own.
        word: What it is called.
    """

    root: Branch
    path: str = ""
    word: str = "self"

    def reach(self, path: str) -> str:
        """How a module below it is reached: ``self.blocks[3].attn``."""
        below = path.removeprefix(f"{self.path}.") if self.path else path
        branch = self.root.at(self.path) if self.path else self.root
        return self.word if path == self.path else str(member(module_expression(branch, below), self.word))

    def n_listed(self, path: str) -> int:
        """How many modules a list holds; 0 if it is none, or has gaps."""
        branch = self.root.at(path)
        return len(branch.branches) if branch.is_list and not branch.held else 0


def all_of_a_name(tensors: Sequence[str], variables: Mapping[str, str]) -> Code:
    """``buffers_named(self, "num_batches_tracked")``; a list, where a module holds another one of that name.

    Args:
        tensors: The variables of tensors that the module holds.
        variables: Of all buffers.
    """
    ends = {one.steps[-1] for one in tensors if isinstance(one, Reached)}
    alike = {one for one in variables.values() if isinstance(one, Reached) and one.steps[-1] in ends}
    if len(ends) != 1 or alike != set(tensors) or any(one.steps[0] != "self" for one in alike):
        return SeveralCode(names(tensors), "[]")
    name = str(*ends).removeprefix(".")
    return CallCode("buffers_named", (NameCode("self"), LiteralCode(f'"{name}"')))
