"""Which statements of the user's a line of a unit came from: read from the text, so that it holds in edited files.

In model.py and backward.py a comment quotes statements above the paragraph that does them. Where a paragraph does
several, or none is quoted, its calls are told apart by the kernel that they launch, or by the variable that they bind.
In a kernel the picture of the lock says from which statements the line came that makes a value; where a kernel does one
statement alone, all of it did. What says nothing is linked to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from longhand.emit.text.quoting import python_comment
from longhand.review.picture import DrawnWork, Picture
from longhand.schedule.named_plan import Quote

Quotes = tuple[str, ...]
_HEAD = re.compile(r"\s*# (\S+)    (\S.*)")
_LAUNCH = re.compile(r"\bkernels\.(\w+)\(")
_TARGETS = re.compile(r"\s*([\w, ]+?)(?::[^=]+)? = ")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(?:\[[^=]*?\])? (?:[-+*/|&]?=) ")
_STORED = re.compile(r"\btl\.(?:store|atomic_\w+)\(\s*([A-Za-z_]\w*)")
_CALL = re.compile(r"(?:= |\breturn |^\s*)(?:F\.|torch\.|blas\.|kernels\.)")
_NUMBER = re.compile(r" \(\d+\)$")
# How a word of a kernel is spelled in a line: C++ has rows and wide sums, Triton pointers.
_SPELLED = ("{}", "{}_row", "wide_{}", "{}_ptr", "{}_i", "{}_block", "{}_rows")


def link_model(lines: Sequence[str], quotes: Iterable[str], picture: Picture) -> list[Quotes]:
    """For each line of model.py or backward.py the statements that it does.

    Args:
        lines: The text.
        quotes: Every statement that the lock quotes.
        picture: What computes what.
    """
    known = _by_function(quotes)
    works = [work for one in picture.passes for work, _ in one.work]
    links: list[Quotes] = [()] * len(lines)
    for first, code, last in _paragraphs(lines):
        here = _quoted(lines[first:code], known)
        for begin, end in _statements(lines, code, last):
            does = _does(" ".join(lines[begin:end]), here, works)
            links[begin:end] = [does] * (end - begin)
        for at in range(first, code):
            own = _quoted([*_above(lines, first, at), lines[at]], known)
            links[at] = own or here
    return links


def link_kernel(
    lines: Sequence[str], does: Quotes, words: Mapping[str, Quotes], reference: int
) -> list[Quotes]:
    """For each line of a kernel's file the statements that it came from.

    Args:
        lines: The text.
        does: All statements that launches of the kernel do.
        words: By a word of the kernel: the statements behind the line that makes it, as the lock has them.
        reference: The line at which its reference begins, which is no part of the kernel.
    """
    links: list[Quotes] = [()] * len(lines)
    by_text = {python_comment(" ".join(quote.split())): quote for quote in does}
    for at, line in enumerate(lines):
        quote = by_text.get(" ".join(line.lstrip("/ \t").split()))
        links[at] = (quote,) if quote else ()
    if len(does) == 1:
        body = _body(lines, reference)
        return [links[at] or (does if at in body and lines[at].strip() else ()) for at in range(len(lines))]
    spelled = {form.format(word): quotes for word, quotes in words.items() for form in reversed(_SPELLED)}
    spelled |= words
    for begin, end in _expressions(lines, reference):
        text = " ".join(lines[begin:end])
        match = _STORED.search(text) or _ASSIGNED.search(text)
        quotes = spelled.get(match[1], ()) if match else ()
        if quotes:
            links[begin:end] = [quotes] * (end - begin)
    return links


def begins_reference(lines: Sequence[str]) -> int:
    """The line of a Triton kernel's file at which its reference begins; the end where there is none."""
    return next((at for at, line in enumerate(lines) if line.startswith("def reference(")), len(lines))


def _by_function(quotes: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
    """By function: (the statement as comments have it, the quote), the longest first."""
    statements: dict[str, list[tuple[str, str]]] = {}
    for quote in quotes:
        name, _, statement = quote.partition("    ")
        text = " ".join(python_comment(Quote(name, statement).shown).split())
        statements.setdefault(python_comment(name), []).append((text, quote))
    return {name: sorted(pairs, key=lambda pair: -len(pair[0])) for name, pairs in statements.items()}


def _paragraphs(lines: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """(first line of the comment, first line of code, end) of each run of lines, most under a comment that quotes."""
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        code = at
        while code < len(lines) and lines[code].lstrip().startswith("#"):
            code += 1
        end = code
        while end < len(lines) and lines[end].strip() and not _HEAD.fullmatch(lines[end]):
            end += 1
        yield at, code, end
        at = max(end, code, at + 1)


def _quoted(comment: Iterable[str], known: Mapping[str, list[tuple[str, str]]]) -> Quotes:
    """The statements that comments quote: several of one function on a line, long ones on two."""
    joined: list[tuple[str, str]] = []
    for line in comment:
        head = _HEAD.fullmatch(line)
        if head is not None:
            joined.append((head[1], head[2]))
        elif joined and re.match(r"\s*#  {6,}\S", line):
            name, text = joined[-1]
            more = line.strip().removeprefix("#").strip()
            joined[-1] = (name, f"{text}{'' if more.startswith('.') else ' '}{more}")
    return tuple(
        dict.fromkeys(
            quote for name, text in joined for quote in _split(" ".join(text.split()), known.get(name, []))
        )
    )


def _split(text: str, known: Sequence[tuple[str, str]]) -> Iterator[str]:
    """The statements that a text is, with ``; `` between them."""
    while text:
        longest = next(
            (pair for pair in known if text == pair[0] or text.startswith(f"{pair[0]}; ")), None
        )  # the longest first
        if longest is None:
            text = text.partition("; ")[2]
            continue
        yield longest[1]
        text = text[len(longest[0]) + 2 :]


def _above(lines: Sequence[str], first: int, at: int) -> Sequence[str]:
    """The head of a statement that goes on in a second line of its comment."""
    begin = at
    while begin > first and not _HEAD.fullmatch(lines[begin]):
        begin -= 1
    return lines[begin:at]


def _statements(lines: Sequence[str], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The lines of each statement of Python: until its brackets are closed."""
    at = begin
    while at < end:
        first, depth = at, 0
        while at < end:
            code = re.sub(r"\"[^\"]*\"|'[^']*'|#.*", "", lines[at])
            depth += sum(code.count(one) for one in "([{") - sum(code.count(one) for one in ")]}")
            at += 1
            if depth <= 0:
                break
        yield first, at


def _does(text: str, here: Quotes, works: Sequence[DrawnWork]) -> Quotes:
    """What one statement of a paragraph does of what the paragraph quotes, and more that it does besides."""
    launched = _LAUNCH.search(text)
    targets = _TARGETS.match(text)
    names = {name.strip() for name in targets[1].split(",")} if targets else set()
    is_it = [
        work
        for work in works
        if (
            work.kernel == launched[1]
            if launched
            else not work.kernel and any(_NUMBER.sub("", name) in names for name in work.writes)
        )
    ]
    if not here:  # nothing is quoted above: the call says it itself, or what it goes on with stands elsewhere
        are = {work.quotes for work in is_it} if _CALL.search(text) else set()
        return are.pop() if len(are) == 1 else ()
    whole = [work for work in is_it if set(work.quotes) >= set(here)]
    some = [work for work in is_it if set(work.quotes) & set(here)]
    best = min(whole or some, key=lambda work: len(work.quotes), default=None)
    return here if best is None else best.quotes


def _body(lines: Sequence[str], reference: int) -> range:
    """The lines of the kernel: behind the docstring and the imports, before the reference."""
    begins = ("@", "extern", "def ", "template", "static")
    first = next((at for at, line in enumerate(lines) if line.startswith(begins)), 0)
    return range(first, reference)


def _expressions(lines: Sequence[str], reference: int) -> Iterator[tuple[int, int]]:
    """The lines of each statement of a kernel, in C++ until its semicolon."""
    is_cpp = any(line.rstrip().endswith((";", "{")) for line in lines[:reference])
    at = next(iter(_body(lines, reference)), 0)
    if not is_cpp:
        yield from _statements(lines, at, reference)
        return
    while at < reference:
        first = at
        while at < reference:
            text = lines[at].partition("//")[0].strip()
            at += 1
            if text.endswith((";", "{", "}", ":")) or not text or text.startswith("#"):
                break
        yield first, at
