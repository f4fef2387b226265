"""The user's source, read with `ast`: which statement stands on a line, in which function, and what it assigns.

Statements are quoted whole, on one line: line breaks and runs of spaces become one space, comments go. Of a compound
statement (``for``, ``with``, ``if``) only its head is quoted, of a line with a lambda only the lambda's expression.
Strings are not quoted, but for plain words: what is generated goes where the source may not go.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import io
import linecache
import re
import token as tokens_of
import tokenize
from collections.abc import Iterator


class Overwrites(enum.Enum):
    """How much of a tensor a statement writes over."""

    NOTHING = enum.auto()
    SOME = enum.auto()  # x[i] = y
    ALL = enum.auto()  # x.mul_(2)


@dataclasses.dataclass(frozen=True)
class Assigned:
    """One target of an assignment.

    Attributes:
        names: One name, or several where a value is unpacked (None for what is no name: ``_``, ``a[0]``).
        value: The expression whose value it is.
        unpacks: Whether the names take the value's items.
        changes: How much is changed in place of what the name stands for already.
    """

    names: tuple[str | None, ...]
    value: ast.expr
    unpacks: bool
    changes: Overwrites = Overwrites.NOTHING


@dataclasses.dataclass(frozen=True)
class Statement:
    """A statement of the user's (several where they share a line).

    Attributes:
        text: As quoted.
        qualname: ``Attention.forward``; empty at module level.
        line: Where it begins, from 1.
        assigned: What it assigns, in order.
        returns: Whether it is a return.
    """

    text: str
    qualname: str
    line: int
    assigned: tuple[Assigned, ...]
    returns: bool


def statement_at(file: str, line: int) -> Statement | None:
    """The innermost statement that covers a line of a file; None where the source is not to be had."""
    return _read(file).statement(line)


def lambda_at(file: str, line: int) -> Statement | None:
    """The one lambda of a line as a statement that returns its expression; None where there is none, or several."""
    source = _read(file)
    statement = source.statement(line)
    lambdas = [one for one in source.lambdas if one.lineno <= line <= (one.end_lineno or one.lineno)]
    if statement is None or len(lambdas) != 1:
        return None
    body = lambdas[0].body
    text = _text(body.lineno, body.end_lineno or body.lineno, body, source.lines)
    return Statement(text, statement.qualname, lambdas[0].lineno, (), True)


@dataclasses.dataclass(frozen=True)
class _StatementSpan:
    """The lines of a statement, of a compound one those of its head."""

    first: int
    last: int
    statement: ast.stmt
    qualname: str


class UserFile:
    """One file as its syntax tree tells it. A statement is put into words when it is asked for: few of a file are.

    Args:
        lines: Each with its end. Where they are no Python, the file has no statements.
    """

    def __init__(self, lines: tuple[str, ...]) -> None:
        self.lines = lines
        try:
            self._tree = ast.parse("".join(lines))
        except (SyntaxError, ValueError):
            self._tree = ast.Module([], [])
        self._statements: dict[tuple[int, ...], Statement] = {}  # by the spans that they are made of

    @functools.cached_property
    def _spans(self) -> dict[int, list[_StatementSpan]]:
        """By line: what covers it, outermost first."""
        by_line: dict[int, list[_StatementSpan]] = {}
        for span in _spans_of(self._tree.body, ""):
            for number in range(span.first, span.last + 1):
                by_line.setdefault(number, []).append(span)
        return by_line

    @functools.cached_property
    def lambdas(self) -> tuple[ast.Lambda, ...]:
        """All of them."""
        return tuple(node for node in ast.walk(self._tree) if isinstance(node, ast.Lambda))

    @functools.cached_property
    def functions(self) -> tuple[ast.FunctionDef, ...]:
        """All of them, methods too."""
        return tuple(node for node in ast.walk(self._tree) if isinstance(node, ast.FunctionDef))

    def statement(self, line: int) -> Statement | None:
        """The innermost statement that covers a line; several as one where they share it."""
        if (covering := self._spans.get(line)) is None:
            return None
        # One for all its lines: who asks whether two are the same compares syntax, which is so by identity.
        key = tuple(id(span) for span in covering)
        if key not in self._statements:
            self._statements[key] = _merge(covering, self.lines)
        return self._statements[key]


@functools.lru_cache(maxsize=256)
def _source_of(file: str, lines: tuple[str, ...]) -> UserFile:
    return UserFile(lines)


def _read(file: str) -> UserFile:
    """A file as Python knows it now: what was read before counts no longer where it has changed."""
    return _source_of(file, tuple(linecache.getlines(file)))


def shape_names(file: str, first_line: int, last_line: int) -> dict[tuple[str, int], str]:
    """Words that code between two lines gives to sizes: (tensor's name, dimension) -> local.

    Understands ``batch, seq = ids.shape``, ``seq = ids.shape[1]``, ``ids.size()`` and ``ids.size(1)``.
    """
    words: dict[tuple[str, int], str] = {}
    for line in range(first_line, last_line + 1):
        statement = statement_at(file, line)
        for part in statement.assigned if statement is not None and statement.line == line else ():
            tensor, dim = _shape_of(part.value)
            if tensor is None or (part.unpacks == (dim is not None)):
                continue
            for position, name in enumerate(part.names):
                if name is not None:
                    words.setdefault((tensor, position if dim is None else dim), name)
    return words


def function_lines(file: str, line: int) -> tuple[int, int]:
    """The first and last line of the innermost function around a line; (line, line) where there is none."""
    around = [(node.lineno, node.end_lineno or node.lineno) for node in _functions_around(file, line)]
    return max(around, default=(line, line))


def wrapper_of_method(file: str, line: int) -> ast.FunctionDef | None:
    """The innermost function around a line if it is a decorator's: ``self`` comes first, and a function holds it."""
    around = sorted(_functions_around(file, line), key=lambda node: node.lineno)
    if len(around) < 2:
        return None
    inner, outer = around[-1], around[-2]
    first = [*inner.args.posonlyargs, *inner.args.args][:1]
    return inner if first and first[0].arg == "self" and inner in outer.body else None


def _functions_around(file: str, line: int) -> list[ast.FunctionDef]:
    functions = _read(file).functions
    return [node for node in functions if node.lineno <= line <= (node.end_lineno or node.lineno)]


def _shape_of(value: ast.expr) -> tuple[str | None, int | None]:
    """(tensor, dimension or None for all) where an expression is a tensor's size; (None, None) elsewhere."""
    match value:
        case ast.Attribute(value=ast.Name(id=name), attr="shape"):
            return name, None
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="size"), args=[]):
            return name, None
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=int(dim))
        ):
            return name, dim
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=name), attr="size"), args=[ast.Constant(value=int(dim))]
        ):
            return name, dim
    return None, None


def _spans_of(body: list[ast.stmt], qualname: str) -> Iterator[_StatementSpan]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{qualname}.{statement.name}" if qualname else statement.name
            yield from _spans_of(statement.body, name)
            continue
        inner: list[ast.stmt] = []
        for field in ("body", "orelse", "finalbody"):
            inner += getattr(statement, field, [])
        for handler in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
            inner += handler.body
        last = (
            (statement.end_lineno or statement.lineno)
            if not inner
            else max(statement.lineno, inner[0].lineno - 1)
        )
        yield _StatementSpan(statement.lineno, last, statement, qualname)
        yield from _spans_of(inner, qualname)


def _merge(covering: list[_StatementSpan], lines: tuple[str, ...]) -> Statement:
    parts = [_text(span.first, span.last, span.statement, lines) for span in covering]
    assigned = [pair for span in covering for pair in _assigned(span.statement)]
    returns = any(isinstance(span.statement, ast.Return) for span in covering)
    return Statement("; ".join(parts), covering[0].qualname, covering[0].first, tuple(assigned), returns)


def _text(first: int, last: int, statement: ast.stmt | ast.expr, lines: tuple[str, ...]) -> str:
    """What stands between two lines of a statement or an expression, which begins in the first."""
    block = [line.encode() for line in lines[first - 1 : last]]
    if last == statement.end_lineno:
        block[-1] = block[-1][: statement.end_col_offset]
    block[0] = block[0][statement.col_offset :]
    return one_line(b"".join(block).decode())


def one_line(source: str) -> str:
    """A statement on one line, without comments."""
    tokens: list[tokenize.TokenInfo] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            tokens.append(token)
    except (tokenize.TokenError, IndentationError):  # a head without its body ends early: what came is enough
        pass
    skipped = (
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    )
    text, previous = "", None
    for token in _without_strings(tokens):
        if token.type in skipped:
            continue
        if previous is not None:
            broken = token.start[0] != previous.end[0]
            if broken and token.string in ")]}" and text.endswith(",") and not _is_one_tuple(text):
                text = text[:-1]
            elif broken:
                text += "" if previous.string in "([{" or token.string in (")", "]", "}", ".") else " "
            elif token.start[1] > previous.end[1]:
                text += " "
        text += token.string
        previous = token
    return text.rstrip("\\").strip()


# ``ij,jk->ik``, ``b n (h d) -> b h n d``, ``nearest``, ``conv1``, ``-inf``: what tells how something is computed.
_PLAIN = re.compile(r"[+-]?[A-Za-z_]+\d?|[a-zA-Z .,]+->[a-zA-Z .,]*|[\w .()]+->[\w .()]*|")
_QUOTES = "\"'"
_BEGINS = {getattr(tokens_of, name, -1) for name in ("FSTRING_START", "TSTRING_START")}
_ENDS = {getattr(tokens_of, name, -1) for name in ("FSTRING_END", "TSTRING_END")}


def _without_strings(tokens: list[tokenize.TokenInfo]) -> Iterator[tokenize.TokenInfo]:
    """The tokens with ``"..."`` for strings, but for plain words."""
    depth, begin = 0, None
    for token in tokens:
        if token.type in _BEGINS:
            begin = token if depth == 0 else begin
            depth += 1
        elif token.type in _ENDS:
            depth -= 1
            if depth == 0 and begin is not None:
                yield begin._replace(string=f'{begin.string.rstrip(_QUOTES)}"..."', end=token.end)
        elif depth == 0:
            is_shown = token.type != tokenize.STRING or _is_plain(token.string)
            prefix = re.match("[A-Za-z]*", token.string)
            yield token if is_shown else token._replace(string=f'{prefix[0] if prefix else ""}"..."')


def _is_plain(string: str) -> bool:
    try:
        value = ast.literal_eval(string)
    except (ValueError, SyntaxError):  # an f-string
        return False
    return isinstance(value, str) and "\n" not in string and len(value) < 60 and bool(_PLAIN.fullmatch(value))


def _is_one_tuple(text: str) -> bool:
    """Whether the comma at the end of `text` makes the bracket that is open there a tuple of one."""
    depth = 0
    for position in range(len(text) - 2, -1, -1):
        character = text[position]
        if character in ")]}":
            depth += 1
        elif character in "([{":
            if depth == 0:
                return character == "(" and not text[:position].rstrip()[-1:].isalnum()
            depth -= 1
        elif character == "," and depth == 0:
            return False
    return False


_IN_PLACE = re.compile(r"[a-z]\w*[^_]_")


def _assigned(statement: ast.stmt) -> list[Assigned]:
    match statement:
        case ast.Assign(targets=[target, *_], value=value):
            return _pair(target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return _pair(target, value)
        case ast.AugAssign(target=target, op=op, value=value):
            loaded = ast.Name("_", ast.Load())
            return _pair(target, ast.BinOp(loaded, op, value))
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) as call):
            return [Assigned((name,), call, False, Overwrites.ALL)] if _IN_PLACE.fullmatch(method) else []
    return []


def _pair(target: ast.expr, value: ast.expr) -> list[Assigned]:
    match target:
        case ast.Subscript(value=ast.Name(id=name)):
            return [Assigned((name,), value, False, Overwrites.SOME)]
        case ast.Tuple() | ast.List():
            pass
        case _:
            return [Assigned((_name(target),), value, False)]
    if any(isinstance(part, ast.Starred) for part in (*getattr(value, "elts", []), *target.elts)):
        return []
    if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
        pairs = zip(target.elts, value.elts, strict=True)
        return [assigned for part, expression in pairs for assigned in _pair(part, expression)]
    return [Assigned(tuple(_name(part) for part in target.elts), value, True)]


def _name(target: ast.expr) -> str | None:
    """The word that an assignment binds: a local or an attribute; None for ``_`` and for items."""
    if isinstance(target, ast.Name):
        return None if target.id.strip("_") == "" else target.id
    return target.attr if isinstance(target, ast.Attribute) else None
