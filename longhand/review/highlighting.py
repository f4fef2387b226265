"""Python and C++ in colours: each line as pieces of text with a class. What a piece says is never looked at again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

Piece = tuple[str, str]  # (class or "", text)
_PYTHON = """
    and as assert async await break case class continue def del elif else except False finally for from global if
    import in is lambda match None nonlocal not or pass raise return True try while with yield
"""
_CPP = """
    auto bool break case char class const constexpr continue default do double else extern false float for if inline
    int int64_t int32_t uint8_t uint16_t long namespace new nullptr return short signed sizeof static struct switch
    template true typename unsigned using void volatile while
"""
_TOKENS = r"""
    (?P<c>%s)
  | (?P<s>"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)
  | (?P<n>\b(?:0[xX][0-9a-fA-F]+|\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?)[fFlLuU]*)
  | (?P<w>[A-Za-z_]\w*)
  | (?P<x>.)
"""
_PYTHON_TOKENS = re.compile(_TOKENS % r"\#.*", re.VERBOSE | re.DOTALL)
_CPP_TOKENS = re.compile(_TOKENS % r"//.*|/\*.*?\*/|^\s*\#\w+", re.VERBOSE | re.DOTALL)
_LONGEST = 2_000  # characters of a line that is coloured


def highlighted(lines: Sequence[str], is_cpp: bool) -> list[list[Piece]]:
    """The pieces of each line; together they are its text."""
    line_pieces: list[list[Piece]] = []
    quotes = ""  # what ends the string that a line begins in
    for line in lines:
        if len(line) > _LONGEST:
            line_pieces.append([("", line)])
            continue
        pieces: list[Piece] = []
        rest = line
        while rest:
            if quotes:
                inside, end, rest = rest.partition(quotes)
                pieces.append(("s", inside + end))
                quotes = "" if end else quotes
                continue
            begin = None if is_cpp else re.search(r"^[^#'\"]*?(\"\"\"|''')", rest)
            if begin is not None:
                pieces += _pieces(rest[: begin.start(1)], is_cpp)
                quotes = begin[1]
                pieces.append(("s", quotes))
                rest = rest[begin.end(1) :]
                continue
            pieces += _pieces(rest, is_cpp)
            rest = ""
        line_pieces.append(list(_joined(pieces)))
    return line_pieces


def _pieces(text: str, is_cpp: bool) -> Iterator[Piece]:
    keywords = set((_CPP if is_cpp else _PYTHON).split())
    for match in (_CPP_TOKENS if is_cpp else _PYTHON_TOKENS).finditer(text):
        kind = match.lastgroup or "x"
        if kind == "w":
            kind = "k" if match[0] in keywords else "x"
        yield ("" if kind == "x" else kind), match[0]


def _joined(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Neighbours of one class are one piece."""
    kind, text = "", ""
    for own, more in pieces:
        if own != kind and text:
            yield kind, text
            text = ""
        kind, text = own, text + more
    if text:
        yield kind, text
