"""Python before it is printed: expressions and statements as values, which are compared as such and printed last."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import sympy

from longhand.emit.text.expression import size_text
from longhand.emit.text.quoting import python_string
from longhand.errors import CaptureError


class Code:
    """An expression; its text is what `str` makes of it.

    Attributes:
        is_factor: Whether it stands in a product without parentheses.
        is_atom: Whether it stands before a dot without them.
    """

    is_factor = True
    is_atom = True


@dataclasses.dataclass(frozen=True)
class NameCode(Code):
    """What has a name, by that and the steps to it: ``self.blocks[3].attn.weight``; ``:``, a whole dimension."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True)
class LiteralCode(Code):
    """A constant, as Python writes it."""

    literal: str

    def __str__(self) -> str:
        return self.literal


@dataclasses.dataclass(frozen=True)
class FormulaCode(Code):
    """A size that is computed of symbols: ``2 * seq - 1``.

    Attributes:
        parts: How it is put together, symbols by their words.
        size: The same with its symbols.
        words: Of those.
        is_bare: Whether a quotient has no parentheses of its own.
    """

    parts: tuple[object, ...]
    size: sympy.Expr = dataclasses.field(compare=False)
    words: Mapping[str, str] = dataclasses.field(compare=False)
    is_bare: bool = False
    is_factor = False

    def __str__(self) -> str:
        return size_text(self.size, self.words, self.is_bare)


def formula(size: sympy.Expr, words: Mapping[str, str], is_bare: bool = False) -> FormulaCode:
    """A size over the words of its symbols."""

    def parts(of: sympy.Basic) -> tuple[object, ...]:
        if of.is_Symbol:
            return (words.get(str(of), str(of)),)
        return (type(of).__name__, *map(parts, of.args)) if of.args else (repr(of),)

    return FormulaCode(parts(size), size, words, is_bare)


@dataclasses.dataclass(frozen=True)
class ProductCode(Code):
    """``batch * seq``"""

    factors: tuple[Code, ...]

    def __str__(self) -> str:
        return " * ".join(str(one) if one.is_factor else f"({one})" for one in self.factors)


@dataclasses.dataclass(frozen=True)
class InfixCode(Code):
    """``head_dim // 2``"""

    left: Code
    sign: str
    right: Code
    is_factor = False
    is_atom = False

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


@dataclasses.dataclass(frozen=True)
class PrefixCode(Code):
    """``-half``, ``*d_layers``"""

    sign: str
    of: Code

    def __str__(self) -> str:
        return f"{self.sign}{self.of}"


@dataclasses.dataclass(frozen=True)
class GroupedCode(Code):
    """``(seq - 1)``"""

    of: Code

    def __str__(self) -> str:
        return f"({self.of})"


@dataclasses.dataclass(frozen=True)
class SeveralCode(Code):
    """Several in brackets: a tuple, a list; what a call is given, without any."""

    items: tuple[Code, ...]
    brackets: str = "()"

    def __str__(self) -> str:
        comma = "," if len(self.items) == 1 and self.brackets == "()" else ""
        begin, end = self.brackets[:1], self.brackets[1:]
        return f"{begin}{', '.join(map(str, self.items))}{comma}{end}"


@dataclasses.dataclass(frozen=True)
class KeywordCode(Code):
    """``dim=-1``; of a word that is Python's own ``**{"from": 0}``."""

    word: str
    value: Code
    is_own: bool = False

    def __str__(self) -> str:
        return f'**{{"{self.word}": {self.value}}}' if self.is_own else f"{self.word}={self.value}"


@dataclasses.dataclass(frozen=True)
class CallCode(Code):
    """``torch.cat([q, k], dim=-1)``"""

    function: str
    given: tuple[Code, ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.given))})"


@dataclasses.dataclass(frozen=True)
class OperatorCode(CallCode):
    """A call of one of torch's operators by its own name: ``torch.native_batch_norm(x, bn.weight, ...)``.

    Attributes:
        name: The operator: ``native_batch_norm``.
        words: What it calls its arguments, in order.
    """

    name: str = ""
    words: tuple[str, ...] = dataclasses.field(default=(), compare=False)


@dataclasses.dataclass(frozen=True)
class MethodCode(Code):
    """``q.transpose(1, 2)``; an attribute where it is given nothing that could be called: ``q.T``."""

    of: Code
    name: str
    given: tuple[Code, ...] | None = None

    def __str__(self) -> str:
        called = "" if self.given is None else f"({', '.join(map(str, self.given))})"
        return f"{self.of}.{self.name}{called}"


@dataclasses.dataclass(frozen=True)
class ItemCode(Code):
    """``x[:, -1]``"""

    of: Code
    places: tuple[Code, ...]

    def __str__(self) -> str:
        return f"{self.of}[{', '.join(map(str, self.places))}]"


@dataclasses.dataclass(frozen=True)
class SliceCode(Code):
    """``1:seq``"""

    begin: Code | None = None
    end: Code | None = None
    step: Code | None = None

    def __str__(self) -> str:
        parts = ["" if one is None else str(one) for one in (self.begin, self.end)]
        return ":".join([*parts, str(self.step)] if self.step is not None else parts)


@dataclasses.dataclass(frozen=True)
class EachCode(Code):
    """``[torch.empty_like(param) for param in params]``"""

    item: Code
    word: str
    of: Code

    def __str__(self) -> str:
        return f"[{self.item} for {self.word} in {self.of}]"


@dataclasses.dataclass(frozen=True)
class NamedArgumentsCode(Code):
    """``**vars(blocks.pop())``, of a record that holds arguments by their names"""

    value: Code

    def __str__(self) -> str:
        return f"**vars({self.value})"


@dataclasses.dataclass(frozen=True)
class NamedItemsCode(Code):
    """``{"fc.weight": d_fc_weight, **of_module("attn", attn_gradients)}``: items without a name are dictionaries."""

    names: tuple[str, ...]
    items: tuple[Code, ...]

    def __str__(self) -> str:
        pairs = zip(self.names, self.items, strict=True)
        return f"{{{', '.join(f'{python_string(name)}: {item}' if name else f'**{item}' for name, item in pairs)}}}"


NO_CODE = LiteralCode("()")  # what a call is given for a shape of no dimensions


def whole_number(value: int) -> LiteralCode:
    """``64``"""
    return LiteralCode(str(value))


def words_in(code: Code) -> Iterator[str]:
    """The names that an expression reads."""
    if isinstance(code, NameCode):
        yield code.name
        return
    if not dataclasses.is_dataclass(code):
        return
    waiting: list[object] = [getattr(code, one.name) for one in dataclasses.fields(code)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Code):
            yield from words_in(part)
        elif isinstance(part, tuple | list):
            waiting += part


def begun_with(code: Code, word: str, value: Code) -> Code | None:
    """A chain of views that begins with a word, begun with a value instead; None where it does not begin with it."""
    if isinstance(code, NameCode):
        return value if code.name == word and value.is_atom else None
    if not isinstance(code, MethodCode | ItemCode):
        return None
    begun = begun_with(code.of, word, value)
    return None if begun is None else dataclasses.replace(code, of=begun)


def names(words: Iterable[str]) -> tuple[NameCode, ...]:
    """What has names."""
    return tuple(map(NameCode, words))


def product(factors: Sequence[Code]) -> Code:
    """Several multiplied; one as it stands in a product."""
    if len(factors) > 1:
        return ProductCode(tuple(factors))
    return factors[0] if factors[0].is_factor else GroupedCode(factors[0])


def dimension(tensor: str, place: int) -> ItemCode:
    """``conv.shape[1]``"""
    return ItemCode(MethodCode(NameCode(tensor), "shape"), (whole_number(place),))


@dataclasses.dataclass(frozen=True)
class PythonStatement:
    """A statement, or the head of one.

    Attributes:
        targets: What it binds.
        value: What that is bound to, or what the word is said of.
        word: ``return``, ``del``, ``if``, ``for``; empty where it binds, or only calls.
        remark: What stands behind it.
        unpacks: Whether one target is the only item of the value.
        depth: How far in it is.
    """

    targets: tuple[str, ...] = ()
    value: Code | None = None
    word: str = ""
    remark: str = ""
    unpacks: bool = False
    depth: int = 0

    def __str__(self) -> str:
        indent, remark = "    " * self.depth, f"  # {self.remark}" if self.remark else ""
        return f"{indent}{self._plain()}{remark}"

    def _plain(self) -> str:
        bound = f"{', '.join(self.targets)}{',' * self.unpacks}"
        match self.word:
            case "":
                return f"{bound} = {self.value}" if bound else str(self.value)
            case "for":
                return f"for {bound} in {self.value}:"
            case "if" | "elif":
                return f"{self.word} {self.value}:"
            case "else":
                return "else:"
        return self.word if self.value is None else f"{self.word} {self.value}"


@dataclasses.dataclass(frozen=True)
class SizeText:
    """A size as it is written.

    Attributes:
        code: By itself.
        words: Those that it names.
        is_number: Whether it is one.
    """

    code: Code
    words: frozenset[str] = frozenset()
    is_number: bool = False


def named_size(word: str) -> SizeText:
    """A size by its word."""
    return SizeText(NameCode(word), frozenset({word}))


def told_size(terms: Sequence[tuple[int, str]], plus: int) -> SizeText:
    """A number by the words of sizes that tell it: ``2 * n_in + 1``. It gives way to what a reader sees at once."""
    codes = [
        NameCode(word) if times == 1 else ProductCode((whole_number(times), NameCode(word)))
        for times, word in terms
    ]
    code: Code = codes[0]
    for more in (*codes[1:], *((whole_number(plus),) if plus else ())):
        code = InfixCode(code, "+", more)
    return SizeText(code, frozenset(word for _, word in terms), is_number=True)


def multiplied(texts: Sequence[SizeText]) -> SizeText:
    """Sizes multiplied."""
    words = frozenset[str]().union(*(text.words for text in texts))
    return SizeText(product([text.code for text in texts]), words)


_COMPARISONS: dict[type, str] = {
    sympy.Eq: "==",
    sympy.Ne: "!=",
    sympy.StrictLessThan: "<",
    sympy.LessThan: "<=",
    sympy.StrictGreaterThan: ">",
    sympy.GreaterThan: ">=",
}


def condition_text(condition: sympy.Basic, words: Mapping[str, str]) -> str:
    """A condition on sizes as Python: ``batch % 4 == 0``.

    Raises:
        CaptureError: It is of a kind that cannot be written.
    """
    if isinstance(condition, sympy.And | sympy.Or):
        word = " and " if isinstance(condition, sympy.And) else " or "
        return word.join(f"({condition_text(part, words)})" for part in condition.args)
    if isinstance(condition, sympy.Not):
        return f"not ({condition_text(condition.args[0], words)})"
    if type(condition) not in _COMPARISONS:
        raise CaptureError(
            f"The code decides by sizes in a way that generated code cannot check: {condition}.",
            hint="Make those sizes fixed numbers: leave them out of dynamic_shapes.",
        )
    left, right = (size_text(part, words, is_alone=True) for part in condition.args)
    return f"{left} {_COMPARISONS[type(condition)]} {right}"
