"""Paragraphs of model.py: what runs, under the user's own statements that it came from.

A line that is asked about later is a `PythonLine`: its statement, and what kind it is, is told where it is made. Views
that the user gave a name to are lines of their own before the library call that reads them.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import textwrap
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Self

import torch

from longhand.emit.text.python_code import CallCode, Code, PythonStatement
from longhand.emit.text.quoting import python_comment
from longhand.lower.ir import Buffer, Extern
from longhand.schedule.named_plan import CallOfMany, ModelStep, Quote
from longhand.schedule.plan import Allocate, Launch, Release, Reuse


class LineKind(enum.Enum):
    """What a line is, for those that arrange lines."""

    PLAIN = "plain"
    LAUNCH = "launch"  # the call of a kernel
    COMMENT = "comment"
    POOLED = "pooled"  # memory of the pool, which a name must hold
    RELEASE = "release"  # ``del scores``


class PythonLine(str):
    """The text of a line, with the statement that it is, so that nobody has to take it apart.

    Attributes:
        kind: What it is.
        said: The statement; None of a comment, and of what nobody asks about.
    """

    __slots__ = ("kind", "said")
    kind: LineKind
    said: PythonStatement | None

    def __new__(cls, text: str, kind: LineKind = LineKind.PLAIN) -> Self:
        made = super().__new__(cls, text)
        made.kind, made.said = kind, None
        return made

    @classmethod
    def of(cls, said: PythonStatement, kind: LineKind = LineKind.PLAIN) -> Self:
        """A statement, printed."""
        made = cls(str(said), kind)
        made.said = said
        return made

    @classmethod
    def binding(cls, targets: Sequence[str], value: Code, kind: LineKind = LineKind.PLAIN) -> Self:
        """``q, k, v = value``"""
        return cls.of(PythonStatement(tuple(targets), value), kind)

    @classmethod
    def worded(cls, word: str, value: Code | None = None, kind: LineKind = LineKind.PLAIN) -> Self:
        """``del q, k``, ``if self.layer == 3:``, ``return x``"""
        return cls.of(PythonStatement(value=value, word=word), kind)

    def indented(self) -> Self:
        """The same further in: part of another statement."""
        if self.said is None:
            return type(self)(f"    {self}", self.kind)
        return self.of(dataclasses.replace(self.said, depth=self.said.depth + 1), self.kind)


def kind_of(line: str) -> LineKind:
    """What a line is; of one that nobody asks about `PLAIN`."""
    return line.kind if isinstance(line, PythonLine) else LineKind.PLAIN


def statements_of(lines: Iterable[str]) -> Iterator[PythonStatement]:
    """What lines are, without comments."""
    for line in lines:
        if kind_of(line) is not LineKind.COMMENT:
            assert isinstance(line, PythonLine) and line.said is not None, line
            yield line.said


def bound_by(line: str) -> tuple[str, ...]:
    """What a line binds in its function; nothing where a remark stands behind it, or it is part of another."""
    said = line.said if isinstance(line, PythonLine) else None
    return () if said is None or said.word or said.depth or said.remark else said.targets


def returned_value(line: str, targets: Sequence[str]) -> Code | None:
    """What a line binds to these, where it can be returned instead; None where it cannot, or binds others."""
    if not isinstance(line, PythonLine) or line.said is None or line.kind is LineKind.POOLED:
        return None
    return line.said.value if targets and bound_by(line) == tuple(targets) else None


def indented(lines: Sequence[str]) -> list[str]:
    """The lines as part of another statement."""
    return [line.indented() if isinstance(line, PythonLine) else f"    {line}" for line in lines]


def remark_lines(text: str, width: int) -> list[PythonLine]:
    """A comment, as long lines as the width allows."""
    wrapped = textwrap.wrap(f"# {text}", width, subsequent_indent="# ") if text else []
    return [PythonLine(line, LineKind.COMMENT) for line in wrapped]


@dataclasses.dataclass(frozen=True)
class CallOfLibrary:
    """A call, and what it names.

    Attributes:
        code: The right-hand side.
        needs_functional: Whether it names ``F``.
        runtime: The name of runtime.py that it calls; empty if it calls none.
        module: The module whose import registers the operator; empty for torch's own.
    """

    code: Code
    needs_functional: bool = False
    runtime: str = ""
    module: str = ""


def functional(name: str, arguments: Iterable[Code]) -> CallOfLibrary:
    """``F.linear(x, weight)``"""
    return CallOfLibrary(CallCode(f"F.{name}", tuple(arguments)), needs_functional=True)


WIDEST = 98
_FURTHER_IN = " " * 8
_MOST_QUOTES = 3
_APART = (LineKind.LAUNCH, LineKind.COMMENT)  # what is read by itself


@dataclasses.dataclass
class Paragraph:
    """Statements that came from the same words of the user's.

    Attributes:
        quotes: What the user wrote.
        lines: What runs.
        module: The path of the module that wrote it, if that is known.
        call: What it does, if that is a call that may be one of several in a loop.
    """

    quotes: tuple[Quote, ...]
    lines: list[str]
    module: str = ""
    call: CallOfMany | None = None

    @property
    def is_bare(self) -> bool:
        """Whether it is one line under no statement."""
        return len(self.lines) == 1 and not self.quotes


def append(
    paragraphs: list[Paragraph], quotes: tuple[Quote, ...], lines: Iterable[str], module: str = ""
) -> None:
    """Lines under a statement: of the last paragraph, where that has the same one."""
    if paragraphs and quotes and paragraphs[-1].quotes == quotes:
        paragraphs[-1].lines += lines
    else:
        paragraphs.append(Paragraph(quotes, list(lines), module))


def fewest(quotes: Iterable[Quote]) -> tuple[Quote, ...]:
    """Each quote once, and not too many."""
    once = tuple(dict.fromkeys(quotes))
    return once if len(once) <= _MOST_QUOTES else (*once[: _MOST_QUOTES - 1], once[-1])


def said_once(paragraphs: Iterable[Paragraph], names_modules: bool) -> list[Paragraph]:
    """Each statement of the user's is quoted where it begins, and no more.

    A library call that goes on with, or repeats, what was quoted is more of the paragraph above; what another module
    does again is headed by that, if that is one of several.

    Args:
        paragraphs: Of one function, in order.
        names_modules: Whether a module's path is that of one alone: no loop runs the function for others.
    """
    said: list[Paragraph] = []
    first: dict[Quote, str] = {}  # the module that a statement was quoted for
    headed: set[str] = set()
    above: tuple[Quote, ...] = ()  # what the last paragraph would quote
    for paragraph in paragraphs:
        quotes = paragraph.quotes
        new = tuple(quote for quote in quotes if quote not in first)
        heading = _part(paragraph.module, first[quotes[0]]) if quotes and not new and names_modules else ""
        if heading and heading not in headed:
            headed.add(heading)
            remark = PythonLine(f"# {python_comment(heading)}", LineKind.COMMENT)
            said.append(Paragraph((), [remark, *paragraph.lines]))
        elif quotes and not new and _goes_on(said[-1], above, paragraph):
            said[-1].lines += paragraph.lines
        else:
            said.append(Paragraph(new, list(paragraph.lines)))
        first.update(dict.fromkeys(new, paragraph.module))
        above = quotes
    return said


def _goes_on(last: Paragraph, above: tuple[Quote, ...], paragraph: Paragraph) -> bool:
    """Whether a paragraph with nothing new to quote is more of the last one, which came from the words `above`."""
    is_alike = bool(set(above) & set(paragraph.quotes)) or (bool(above) and not last.quotes)
    # The call of a kernel, with its tail of sizes, stands for itself.
    lines = (*last.lines, *paragraph.lines)
    return is_alike and all(kind_of(line) is not LineKind.LAUNCH for line in lines)


def _part(path: str, other: str) -> str:
    """``encoder.block[1]``: the part of the model that a path is in and another is not; empty if that is all of it."""
    parts = path.split(".")
    shared = [one == its for one, its in zip(parts, other.split("."), strict=False)]
    n_shared = shared.index(False) if False in shared else len(parts)
    if n_shared + 1 >= len(parts) or not parts[n_shared].isdigit():
        return ""
    return re.sub(r"\.(\d+)", r"[\1]", ".".join(parts[: n_shared + 1]))


def joined_quotes(paragraphs: list[Paragraph]) -> list[Paragraph]:
    """Neighbouring one-line paragraphs of one function become one, their statements on one line."""
    joined: list[Paragraph] = []
    for paragraph in paragraphs:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.quotes
            and paragraph.quotes
            and len(paragraph.lines) == 1
            and all(kind_of(line) not in _APART for line in [*last.lines, *paragraph.lines])
            and len({quote.qualname for quote in (*last.quotes, *paragraph.quotes)}) == 1
            and len(quote_lines((*last.quotes, *paragraph.quotes), WIDEST)) == 1
        ):
            last.quotes = tuple(dict.fromkeys((*last.quotes, *paragraph.quotes)))
            last.lines += paragraph.lines
        else:
            joined.append(paragraph)
    return joined


def quote_lines(quotes: tuple[Quote, ...], width: int) -> list[str]:
    """``Attention.forward    q = self.W_q(x); k = self.W_k(x)``: as many statements on a line as fit."""
    lines: list[str] = []
    said, is_over = "", False
    for quote in quotes:
        head = f"{python_comment(quote.qualname)}    "
        text = python_comment(quote.shown)
        is_same = bool(lines) and head == said and not is_over
        if is_same and len(lines[-1]) + 2 + len(text) <= width:
            lines[-1] += f"; {text}"
        else:
            lines.append(f"{head}{text}")
            is_over = text.startswith("return ")  # the user's own statement
        said = head
    return _wrapped(lines, width)


def _wrapped(lines: list[str], width: int) -> list[str]:
    """Long statements go on in a second line, further in."""
    return [piece for line in lines for piece in _pieces(line, width)]


def _pieces(line: str, width: int) -> Iterator[str]:
    """A line in parts, broken between the outermost brackets where that is possible: before ``.transpose(1, 2)``."""
    indent = ""
    while len(indent) + len(line) > width:
        place = _break(line, width - len(indent))
        if place is None:
            break
        yield f"{indent}{line[:place].rstrip()}"
        line, indent = line[place:].lstrip(), _FURTHER_IN
    yield f"{indent}{line}"


def _break(line: str, width: int) -> int | None:
    """Where a line is broken: the last of the least nested places in its second half."""
    depth, best = 0, None
    head, gap, _ = line.partition("    ")
    start = len(f"{head}{gap}") if gap else 0  # behind the function's name
    for place, letter in enumerate(line[: width + 1]):
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        is_call = letter == "." and line[place - 1 : place] in (")", "]")
        if place > start and (letter == " " or is_call):
            cost = (place < width // 2, max(depth, 0))
            if best is None or cost <= best[0]:
                best = cost, place
    if best is not None:
        return best[1]
    later = line.find(" ", width)
    return later if later >= 0 else None


def drop_unread(paragraphs: Iterable[Paragraph], words: Iterable[str], used: Collection[str]) -> None:
    """Takes the lines that bind a word which nothing uses out of the paragraphs."""
    unread = {(word,) for word in words if word not in used}
    for paragraph in paragraphs:
        paragraph.lines[:] = [line for line in paragraph.lines if bound_by(line) not in unread]


def quoted_step(
    steps: Sequence[ModelStep], calls: Container[int], buffers: Mapping[str, Buffer]
) -> Launch | Extern | None:
    """The step whose statement stands above the first one: of a copy into another layout what it is made for.

    Args:
        steps: From a launch or a library call on.
        calls: Steps that functions stand for, by identity.
        buffers: The plan's.

    Returns:
        None where what reads the copy has no statement of its own above it: a loop, or a call of a function.
    """
    for step in steps:
        if id(step) in calls or not isinstance(step, Launch | Extern | Allocate | Reuse | Release):
            return None
        if isinstance(step, Launch) or (isinstance(step, Extern) and not _is_layout_copy(step, buffers)):
            return step
    return None


def _is_layout_copy(step: Extern, buffers: Mapping[str, Buffer]) -> bool:
    """Whether a call is lowering's own, for a layout that somebody asks for: ``out = out.contiguous()``."""
    made = buffers[step.outputs[0]].derived if len(step.outputs) == 1 and step.outputs[0] else None
    return step.target is torch.ops.aten.contiguous.default and made is not None and made.how.is_layout
