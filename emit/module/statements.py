"""Lines of model.py and backward.py that are asked about later: what they bind and what kind they are is told here."""

from __future__ import annotations

import dataclasses
import enum
import textwrap
from collections.abc import Sequence
from typing import Self


class StatementKind(enum.Enum):
    """What a line is, for those that arrange lines."""

    PLAIN = "plain"
    LAUNCH = "launch"  # the call of a kernel
    COMMENT = "comment"
    POOLED = "pooled"  # memory of the pool, which a name must hold
    RELEASE = "release"  # ``del scores``


class Statement(str):
    """The text of a line, with what it is made of, so that nobody has to take it apart.

    Attributes:
        kind: What it is.
        target: What it binds: ``q, k, v``; empty where it binds nothing, or a remark stands behind it.
        value: What that is bound to.
        is_atom: Whether the value stands before a dot without parentheses.
    """

    __slots__ = ("is_atom", "kind", "target", "value")
    kind: StatementKind
    target: str
    value: str
    is_atom: bool

    def __new__(cls, text: str, kind: StatementKind = StatementKind.PLAIN) -> Self:
        made = super().__new__(cls, text)
        made.kind, made.target, made.value, made.is_atom = kind, "", "", True
        return made

    @classmethod
    def assignment(
        cls, target: str, value: str, kind: StatementKind = StatementKind.PLAIN, is_atom: bool = True
    ) -> Self:
        """``target = value``"""
        made = cls(f"{target} = {value}", kind)
        made.target, made.value, made.is_atom = target, value, is_atom
        return made

    def indented(self) -> Self:
        """The same further in: part of another statement, which binds nothing for those around it."""
        return type(self)(f"    {self}", self.kind)


def kind_of(line: str) -> StatementKind:
    """What a line is; of one that nobody asks about `PLAIN`."""
    return line.kind if isinstance(line, Statement) else StatementKind.PLAIN


def bound_by(line: str) -> str:
    """What a line binds; empty where it binds nothing."""
    return line.target if isinstance(line, Statement) else ""


def returned_value(line: str, target: str) -> str | None:
    """What a line binds to a target, where it can be returned instead; None where it cannot, or binds another."""
    is_bound = isinstance(line, Statement) and line.target == target and line.kind is not StatementKind.POOLED
    return line.value if is_bound and isinstance(line, Statement) else None


def indented(lines: Sequence[str]) -> list[str]:
    """The lines as part of another statement."""
    return [line.indented() if isinstance(line, Statement) else f"    {line}" for line in lines]


def remark_lines(text: str, width: int) -> list[Statement]:
    """A comment, as long lines as the width allows."""
    wrapped = textwrap.wrap(f"# {text}", width, subsequent_indent="# ") if text else []
    return [Statement(line, StatementKind.COMMENT) for line in wrapped]


@dataclasses.dataclass(frozen=True)
class LibraryCallText:
    """A call, printed.

    Attributes:
        text: The right-hand side.
        is_atom: Whether it stands before a dot without parentheses.
        needs_functional: Whether it names ``F``.
        runtime: The name of runtime.py that it calls; empty if it calls none.
        module: The module whose import registers the operator; empty for torch's own.
    """

    text: str
    needs_functional: bool = False
    runtime: str = ""
    module: str = ""
    is_atom: bool = True


def functional(name: str, arguments: Sequence[str]) -> LibraryCallText:
    """``F.linear(x, weight)``"""
    return LibraryCallText(f"F.{name}({', '.join(arguments)})", needs_functional=True)
