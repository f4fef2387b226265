"""The module that a function of model.py has at hand, and how others are reached from it."""

from __future__ import annotations

import dataclasses

from longhand.emit.module.module_tree import Branch, member, module_expression


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
