"""Functions at the top of a file for operators that it calls several times, with many arguments, in one way.

What all calls give alike is in the function, and so is what they take of one module: a call names what differs.
"""

from __future__ import annotations

import dataclasses
import functools
import keyword
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from longhand.emit.layers.file_settings import FileSettings, operators_in
from longhand.emit.layers.layer_methods import Method
from longhand.emit.layers.shared_functions import SharedFunction
from longhand.emit.module.model_text import ModelText
from longhand.emit.module.paragraphs import WIDEST, PythonLine, WrittenParagraph
from longhand.emit.text.python_code import (
    CallCode,
    Code,
    KeywordCode,
    LiteralCode,
    NameCode,
    OperatorCode,
    PrefixCode,
    PythonStatement,
    SeveralCode,
    words_in,
)
from longhand.emit.text.told_sizes import BoundSizes
from longhand.schedule.named_plan import Reached
from longhand.schedule.names.words import GradientWord, listed

# Lines of a function beside its call: its head, its docstring, and two blank ones.
_LINES_AROUND = 4
# Parts of operators' names that say how they are computed, not what they compute.
_HOW_TEXT = "native scaled dot product efficient flash cudnn for cpu fallback legit with indices"
_HOW = frozenset(_HOW_TEXT.split())
_WORDS = {"self": "x", "input": "x", "grad_output": GradientWord("out"), "grad_out": GradientWord("out")}
_COMPUTED = {
    "native_batch_norm": "x normalized, and of each channel mean and 1 / standard deviation",
    "max_pool2d_with_indices": "the greatest value of each window, and where in x it is",
    "max_pool3d_with_indices": "the greatest value of each window, and where in x it is",
}


@dataclasses.dataclass(frozen=True)
class _Argument:
    """What a call gives, but for what may differ between calls of one way.

    Attributes:
        word: What the operator calls it.
        by_name: Whether it is told by that.
        module: Of several tensors of one module: which of the call's modules that is, by number; else -1.
        attribute: What it is called there.
        is_constant: Whether it is the same wherever it stands.
    """

    word: str
    by_name: bool
    module: int = -1
    attribute: str = ""
    is_constant: bool = False


@dataclasses.dataclass(frozen=True)
class _Way:
    """How an operator is called: calls of one way may be those of one function."""

    function: str
    operator: str
    arguments: tuple[_Argument, ...]


def with_call_functions(text: ModelText, settings: FileSettings) -> ModelText:
    """A file whose calls of operators are short."""
    constants = settings.words
    calls: dict[_Way, list[tuple[int, OperatorCode]]] = {}
    for said in _statements(text):
        for call in operators_in(said.value):
            n_before = sum(len(target) + 2 for target in said.targets)
            calls.setdefault(_way(call, constants), []).append((n_before, call))
    taken, made = settings.taken | _words_of(text), dict[_Way, _CallFunction]()
    for way, of_way in calls.items():
        if (name := _free_name(way, taken)) is None:
            continue
        one = _CallFunction.of(name, way, [call for _, call in of_way])
        saved = sum(_n_lines(n, call) - _n_lines(n, one.call(call)) for n, call in of_way)
        if len(of_way) > 1 and saved > one.n_lines:
            made[way] = one
            taken.add(one.name)
    return _rewritten(text, made, constants) if made else text


def _said(way: _Way) -> str:
    """The operator's word."""
    parts = [part for part in way.operator.split("_") if part]
    return "_".join(part for part in parts if part not in _HOW) or "_".join(parts)


def _free_name(way: _Way, taken: Collection[str]) -> str | None:
    """A name for a function of these calls; None where other ways of one operator have them all: those stay long."""
    said, whole = _said(way), "_".join(part for part in way.operator.split("_") if part)
    return next((word for word in (said, whole, f"call_{said}") if word not in taken), None)


@dataclasses.dataclass(frozen=True)
class _CallFunction:
    """A function for calls of one way.

    Attributes:
        name: The function.
        way: How its operator is called.
        modules: The words of its modules.
        shared: What all calls give alike, by place.
        inside: The call that it makes.
    """

    name: str
    way: _Way
    modules: tuple[str, ...]
    shared: Mapping[int, Code]
    inside: CallCode

    @classmethod
    def of(cls, name: str, way: _Way, calls: Sequence[OperatorCode]) -> _CallFunction:
        """That of these calls."""
        said = _said(way)
        n_modules = len({one.module for one in way.arguments} - {-1})
        word = said.removesuffix("_backward").rpartition("_")[2]
        used = {_word(one) for one in way.arguments}
        word = word if word not in used and word != name and not keyword.iskeyword(word) else "module"
        modules = tuple(f"{word}_{n}" if n else word for n in range(n_modules))
        shared = {
            place: calls[0].given[place]
            for place, one in enumerate(way.arguments)
            if one.is_constant and len({str(call.given[place]) for call in calls}) == 1
        }
        given: list[Code] = []
        for place, one in enumerate(way.arguments):
            inner: Code = NameCode(_word(one))
            if place in shared:
                given.append(shared[place])
                continue
            if one.module >= 0:
                inner = NameCode(f"{modules[one.module]}.{one.attribute}")
            given.append(KeywordCode(one.word, inner) if one.by_name else inner)
        return cls(name, way, modules, shared, CallCode(way.function, tuple(given)))

    @property
    def n_lines(self) -> int:
        """How many lines of the file it is."""
        return _LINES_AROUND + _n_lines(len("return "), self.inside)

    def call(self, of: OperatorCode) -> CallCode:
        """The call in the place of an operator's."""
        given: list[Code] = []
        for place, one in self._differing():
            value = of.given[place]
            if one.module >= 0:
                assert isinstance(value, NameCode | KeywordCode)
                module = NameCode(_owner(value) or "")
                given.append(KeywordCode(self.modules[one.module], module) if one.by_name else module)
            else:
                given.append(value)
        return CallCode(self.name, tuple(given))

    def text(self) -> SharedFunction:
        """As the file has it."""
        parameters = [
            self.modules[one.module] if one.module >= 0 else _word(one) for _, one in self._differing()
        ]
        line = PythonLine.of(PythonStatement((), self.inside, "return"))
        paragraph = WrittenParagraph("", (), (line,))
        return SharedFunction(self.name, self._remark(), tuple(parameters), BoundSizes((), {}), (paragraph,))

    def _remark(self) -> str:
        """``torch.native_batch_norm by norm's own weight and bias.``, and what it computes."""
        whose = [
            f"{module}'s own {listed(one.attribute for one in self.way.arguments if one.module == n)}"
            for n, module in enumerate(self.modules)
        ]
        how = f"by {listed(whose)}" if whose else "with what all its calls here are given"
        computed = _COMPUTED.get(self.way.operator, "")
        first = f"{self.way.function} {how}"
        rest = f"\n\n    Returns {computed}.\n    " if computed else ""
        return f"{first}.{rest}"

    def _differing(self) -> Iterator[tuple[int, _Argument]]:
        """What a call says, by place: each module once."""
        seen = set[int]()
        for place, one in enumerate(self.way.arguments):
            if place in self.shared or one.module in seen:
                continue
            seen.update({one.module} - {-1})
            yield place, one


def _way(call: OperatorCode, constants: Collection[str]) -> _Way:
    owners = [_owner(value) for value in call.given]
    modules = [owner for owner in dict.fromkeys(owners) if owner and owners.count(owner) > 1]
    arguments = []
    for place, value in enumerate(call.given):
        by_name = isinstance(value, KeywordCode)
        inner = value.value if isinstance(value, KeywordCode) else value
        word = value.word if isinstance(value, KeywordCode) else call.words[place]
        module = modules.index(owner) if (owner := owners[place]) in modules else -1
        attribute = str(inner).rpartition(".")[2] if module >= 0 else ""
        arguments.append(_Argument(word, by_name, module, attribute, _is_constant(inner, constants)))
    return _Way(call.function, call.name, tuple(arguments))


def _owner(value: Code) -> str | None:
    """The module that holds a tensor: ``self.block1.bn`` of ``self.block1.bn.weight``."""
    inner = value.value if isinstance(value, KeywordCode) else value
    reached = inner.name if isinstance(inner, NameCode) else ""
    if not isinstance(reached, Reached) or reached.is_field:
        return None
    owner, _, attribute = reached.rpartition(".")
    return owner if attribute.isidentifier() else None


def _is_constant(code: Code, constants: Collection[str]) -> bool:
    if isinstance(code, NameCode):
        return code.name in constants
    if isinstance(code, PrefixCode):
        return _is_constant(code.of, constants)
    if isinstance(code, SeveralCode):
        return all(_is_constant(one, constants) for one in code.items)
    return isinstance(code, LiteralCode)


def _word(argument: _Argument) -> str:
    word = _WORDS.get(argument.word, argument.word)
    return argument.word if argument.by_name else word


def _n_lines(n_before: int, call: CallCode) -> int:
    """So many lines a call is as it will be formatted, behind what it is bound to."""
    if n_before + len(str(call)) <= WIDEST:
        return 1
    arguments = ", ".join(map(str, call.given))
    return 3 if len(arguments) + 4 <= WIDEST else len(call.given) + 2


# A file's text.


def _functions(text: ModelText) -> tuple[SharedFunction | Method, ...]:
    """All but the outermost one."""
    return *text.functions, *(method for block in text.blocks for method in block.methods)


def _paragraphs(text: ModelText) -> Iterator[WrittenParagraph]:
    yield from text.paragraphs
    for one in _functions(text):
        yield from one.paragraphs


def _statements(text: ModelText) -> Iterator[PythonStatement]:
    lines = (line for one in _paragraphs(text) for line in one.lines)
    return (line.said for line in lines if isinstance(line, PythonLine) and line.said is not None)


def _words_of(text: ModelText) -> set[str]:
    """What the file's functions call something already."""
    functions = _functions(text)
    taken = {one.name for one in functions}
    taken.update(word for one in functions for word in one.parameters)
    taken.update(one.name for one in text.weight_functions)
    for said in _statements(text):
        taken.update(said.targets)
        taken.update(words_in(said.value) if said.value else ())
    return taken


def _rewritten(text: ModelText, made: Mapping[_Way, _CallFunction], constants: Collection[str]) -> ModelText:
    write = functools.partial(_calling, made=made, constants=constants)
    functions = [dataclasses.replace(one, paragraphs=write(one.paragraphs)) for one in text.functions]
    blocks = [
        dataclasses.replace(
            block,
            methods=tuple(
                dataclasses.replace(one, paragraphs=write(one.paragraphs)) for one in block.methods
            ),
        )
        for block in text.blocks
    ]
    return dataclasses.replace(
        text,
        functions=(*(one.text() for one in made.values()), *functions),
        blocks=tuple(blocks),
        paragraphs=write(text.paragraphs),
    )


def _calling(
    paragraphs: Iterable[WrittenParagraph], made: Mapping[_Way, _CallFunction], constants: Collection[str]
) -> tuple[WrittenParagraph, ...]:
    """Paragraphs that call these functions."""

    def line(of: str) -> str:
        said = of.said if isinstance(of, PythonLine) else None
        if said is None or not isinstance(of, PythonLine) or not any(operators_in(said.value)):
            return of
        return PythonLine.of(dataclasses.replace(said, value=part(said.value)), of.kind)

    def part(of: Any) -> Any:
        if isinstance(of, OperatorCode):
            function = made.get(_way(of, constants))
            return of if function is None else function.call(of)
        if isinstance(of, tuple):
            return tuple(map(part, of))
        if not any(operators_in(of)):
            return of
        fields = {one.name: getattr(of, one.name) for one in dataclasses.fields(of)}
        return dataclasses.replace(of, **{name: part(value) for name, value in fields.items()})

    return tuple(dataclasses.replace(one, lines=tuple(map(line, one.lines))) for one in paragraphs)
