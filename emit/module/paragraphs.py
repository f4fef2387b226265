"""Paragraphs of model.py: what runs, under the user's own statements that it came from.

A line that is asked about later is a `PythonLine`: its statement, and what kind it is, is told where it is made. Views
that the user gave a name to are lines of their own before the library call that reads them.
"""

from __future__ import annotations

import dataclasses
import enum
import textwrap
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from typing import Self

from longhand.capture.graph import Provenance
from longhand.emit.text.python_code import CallCode, Code, PythonStatement, words_in
from longhand.emit.text.quoting import most_telling, python_comment, quote_lines
from longhand.schedule.named_plan import CalledModule, CallOfMany, Quote, title_of


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
_AGAIN = "again"
_MOST_LINES = 2  # of statements above a paragraph
_APART = (LineKind.LAUNCH, LineKind.COMMENT)  # what is read by itself


@dataclasses.dataclass
class Paragraph:
    """Statements that came from the same words of the user's.

    Attributes:
        quotes: What the user wrote.
        lines: What runs.
        heading: The part of the module that it belongs to, ``self_attn``; empty if it is none.
        is_evident: Whether its lines say what they do without the user's words.
        modules: Those whose work it is, where the user's statement only calls what holds them.
        is_product: Whether it is a library's product: what a group of modules begins with.
        call: What it does, if that is a call that may be one of several in a loop.
    """

    quotes: tuple[Quote, ...]
    lines: list[str]
    heading: str = ""
    is_evident: bool = False
    modules: tuple[CalledModule, ...] = ()
    is_product: bool = False
    call: CallOfMany | None = None

    @property
    def is_again(self) -> bool:
        """Whether it differentiates nothing, and but computes once more."""
        said = [*(quote.is_again for quote in self.quotes), *(module.is_again for module in self.modules)]
        return bool(said) and all(said)

    @property
    def is_bare(self) -> bool:
        """Whether it is one line under no statement."""
        return len(self.lines) == 1 and not self.quotes and not self.heading


@dataclasses.dataclass(frozen=True)
class WrittenParagraph:
    """A paragraph as the templates print it.

    Attributes:
        heading: The part of the module that begins with it, or empty.
        quotes: What the user wrote.
        lines: What runs.
    """

    heading: str
    quotes: tuple[Quote, ...]
    lines: tuple[str, ...]

    @classmethod
    def of(cls, paragraphs: Iterable[Paragraph]) -> tuple[WrittenParagraph, ...]:
        """Those of a function."""
        return tuple(cls(one.heading, one.quotes, tuple(one.lines)) for one in paragraphs)

    @property
    def comment(self) -> tuple[str, ...]:
        """The lines above it, without the sign of a comment."""
        heading = [python_comment(self.heading)] if self.heading else []
        return (*heading, *quote_lines(self.quotes, WIDEST))


def with_reason(line: PythonStatement, old: str, is_read: bool) -> PythonStatement:
    """``d_x = d_out  # in place: d_out is last read here``, where that is no line too long.

    Args:
        line: The statement, with a remark.
        old: What is written over.
        is_read: Whether what writes over it reads it; else nothing does any more.
    """
    why = "is last read here" if is_read else "is not read any more"
    told = dataclasses.replace(line, remark=f"{line.remark}: {old} {why}")
    return told if len(str(told)) <= WIDEST else line


def append(paragraphs: list[Paragraph], more: Paragraph) -> None:
    """Lines under a statement: of the last paragraph, where that has the same one."""
    last = paragraphs[-1] if paragraphs else None
    if last is not None and more.quotes and last.quotes == more.quotes and last.heading == more.heading:
        last.lines += more.lines
        last.is_evident &= more.is_evident
    else:
        paragraphs.append(more)


def quotes_of(
    stated: Collection[Provenance],
    in_backward: bool,
    is_kept: bool = False,
    parts: Container[tuple[str, str]] = (),
) -> tuple[Quote, ...]:
    """The statements that operations came from; in a backward pass, which of them it only computes again.

    What a forward pass makes for the derivative alone goes unsaid where it does anything else there.

    Args:
        stated: Where they came from.
        in_backward: Whether they are a backward pass's.
        is_kept: Of a forward pass: whether nothing of it reads what they make.
        parts: Of a backward pass: the statements of which they compute but a part again.
    """
    by_kind = [
        dict.fromkeys((one.qualname, one.statement) for one in stated if one.is_of_gradient == is_derived)
        for is_derived in (False, True)
    ]
    plain, derived = by_kind
    if in_backward:
        each = dict.fromkeys((one.qualname, one.statement) for one in stated)
        again = {one: one not in derived for one in each}
        return tuple(Quote(*one, is_again=again[one], is_part=again[one] and one in parts) for one in each)
    return tuple(Quote(*one, is_ahead=is_kept and not plain) for one in plain or derived)


def chosen(quotes: Sequence[Quote], in_backward: bool) -> tuple[Quote, ...]:
    """All that a paragraph does where two lines hold it, else how each function ends, else the statement of its result.

    In a backward pass that is the one whose result's gradient comes in; so for what is computed again beside it.
    """
    derived = [one for one in quotes if not one.is_again]
    again = [one for one in quotes if one.is_again]
    first = most_telling(derived, WIDEST, _MOST_LINES, in_backward)
    return (*first, *most_telling(again, WIDEST, _MOST_LINES))


def said_once(paragraphs: Iterable[Paragraph], in_backward: bool = False) -> list[Paragraph]:
    """Each statement of the user's is quoted where it begins, if at all, and a part of the module where its block does.

    A library call that goes on with, or repeats, what stands above it is more of the paragraph there. "again" is said
    each time.

    Args:
        paragraphs: Of one function, in order.
        in_backward: Whether they are a backward pass's.
    """
    said: list[Paragraph] = []
    first: set[tuple[str, Quote]] = set()
    above = Paragraph((), [])  # the last paragraph, with all that it would quote
    at = ""  # the part of the module
    groups = _Groups(in_backward)
    for paragraph in paragraphs:
        quotes, heading = paragraph.quotes, "" if paragraph.heading == at else paragraph.heading
        at = paragraph.heading or at
        again = tuple(quote for quote in quotes if quote.is_again)
        derived = tuple(quote for quote in quotes if not quote.is_again)
        is_new = not paragraph.is_evident and any((at, quote) not in first for quote in derived or again)
        new = quotes if is_new else again if derived else ()
        is_more = bool(quotes) and not new and not heading and bool(said)
        if (said and groups.goes_on(said[-1], paragraph)) or (
            is_more and _goes_on(said[-1], above, paragraph)
        ):
            said[-1].lines += paragraph.lines
        elif again and not new:
            said.append(Paragraph((), list(paragraph.lines), f"{heading}: {_AGAIN}" if heading else _AGAIN))
        else:
            said.append(Paragraph(new, list(paragraph.lines), heading))
        groups.add(said[-1], paragraph)
        first.update((at, quote) for quote in new)
        above = paragraph
    groups.close()
    return said


class _Groups:
    """Neighbouring paragraphs of modules that one holds, each group under one title: from product to product.

    Args:
        in_backward: Whether a product ends its group, not begins it.
    """

    def __init__(self, in_backward: bool) -> None:
        self._in_backward = in_backward
        self._first: Paragraph | None = None  # which gets the title
        self._modules: dict[CalledModule, None] = {}
        self._last: tuple[CalledModule, ...] = ()
        self._is_whole, self._is_evident = False, True

    def goes_on(self, last: Paragraph, more: Paragraph) -> bool:
        """Whether a paragraph stands with the one before it: of the same module, or both libraries' calls."""
        if not self._last or not more.modules or more.quotes or self._begins(more):
            return False
        if more.is_again != all(one.is_again for one in self._last):
            return False
        return set(more.modules) <= set(self._last) or not _has_launch((*last.lines, *more.lines))

    def add(self, said: Paragraph, paragraph: Paragraph) -> None:
        """A paragraph, and where it is said."""
        if not paragraph.modules:
            self.close()
            return
        if self._begins(paragraph):
            self.close()
            self._first = said
        self._modules |= dict.fromkeys(paragraph.modules)
        self._last = paragraph.modules
        self._is_whole |= self._in_backward and paragraph.is_product
        self._is_evident &= paragraph.is_evident
        if paragraph.quotes:
            self.close()

    def _begins(self, paragraph: Paragraph) -> bool:
        new = {one for one in paragraph.modules if one not in self._modules}
        if self._first is None or paragraph.quotes or not new:
            return self._first is None or bool(paragraph.quotes)
        if paragraph.is_again != all(one.is_again for one in self._modules):
            return True
        is_elsewhere = {one.path[:-1] for one in new} != {one.path[:-1] for one in self._modules}
        return is_elsewhere or self._is_whole or (paragraph.is_product and not self._in_backward)

    def close(self) -> None:
        """Nothing more is of the group at hand."""
        if self._first is not None and not self._is_evident:
            self._first.heading = title_of([*self._modules])
        self._first, self._modules, self._last = None, {}, ()
        self._is_whole, self._is_evident = False, True


def _goes_on(last: Paragraph, above: Paragraph, paragraph: Paragraph) -> bool:
    """Whether a paragraph with nothing to quote is more of the last one, for which `above` was to be said."""
    if above.is_again != paragraph.is_again:
        return False
    if last.quotes:
        is_alike = bool(set(above.quotes) & set(paragraph.quotes))
    else:
        is_alike = bool(above.quotes) and above.heading == paragraph.heading
    # The call of a kernel, with its tail of sizes, stands for itself.
    return is_alike and not _has_launch((*last.lines, *paragraph.lines))


def _has_launch(lines: Iterable[str]) -> bool:
    return any(kind_of(line) is LineKind.LAUNCH for line in lines)


def joined_quotes(paragraphs: list[Paragraph]) -> list[Paragraph]:
    """Neighbouring one-line paragraphs of one function become one, their statements on one line."""
    joined: list[Paragraph] = []
    for paragraph in paragraphs:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.quotes
            and paragraph.quotes
            and not paragraph.heading
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


def words_read(paragraphs: Iterable[Paragraph]) -> frozenset[str]:
    """The names that statements read."""
    lines = (line for one in paragraphs for line in one.lines if isinstance(line, PythonLine))
    said = (line.said.value for line in lines if line.said is not None)
    return frozenset(word for value in said if value is not None for word in words_in(value))


def drop_unread(paragraphs: Iterable[Paragraph], words: Iterable[str], used: Collection[str]) -> None:
    """Takes the lines that bind a word which nothing uses out of the paragraphs."""
    unread = {(word,) for word in words if word not in used}
    for paragraph in paragraphs:
        paragraph.lines[:] = [line for line in paragraph.lines if bound_by(line) not in unread]
