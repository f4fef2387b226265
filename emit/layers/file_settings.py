"""The constants at the top of model.py and backward.py: sizes and numbers that their functions use by one word each."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from longhand.emit.layers.layer_methods import Method
from longhand.emit.layers.model_loops import LayerClass
from longhand.emit.layers.shared_functions import SharedFunction
from longhand.emit.module.paragraphs import Paragraph, PythonLine, WrittenParagraph
from longhand.emit.text.expression import literal_text
from longhand.emit.text.python_code import (
    Code,
    KeywordCode,
    LiteralCode,
    NameCode,
    OperatorCode,
    PythonStatement,
    words_in,
)
from longhand.emit.text.told_sizes import BoundSizes
from longhand.schedule.named_plan import constant_name, sizes_of_file

_OF_FILES = ("UNREAD", "COMES_FROM")  # constants, whatever the model


@dataclasses.dataclass
class FileSettings:
    """What a file's functions share: its constants.

    Attributes:
        numbers: By word: what kernels are given.
        taken: Names that no constant may have.
        sizes: By word: its size.
        elsewhere: By word: the size that another file of the unit calls so.
    """

    numbers: Mapping[str, float]
    taken: set[str]
    sizes: dict[str, int] = dataclasses.field(default_factory=dict)
    elsewhere: Mapping[str, int] = dataclasses.field(default_factory=dict)
    _used: set[str] = dataclasses.field(default_factory=set)
    _operators: Counter[str] = dataclasses.field(default_factory=Counter)

    @classmethod
    def of(
        cls,
        numbers: Mapping[str, float],
        taken: Set[str],
        functions: Iterable[SharedFunction],
        classes: Sequence[LayerClass],
        elsewhere: Mapping[str, int] | None = None,
    ) -> FileSettings:
        """Those of a file: first the sizes that its functions and layers state in one way."""
        methods: list[SharedFunction | Method] = [*functions]
        methods += [method for block in classes for method in block.methods]
        taken = {*taken, *_OF_FILES, *(block.name for block in classes), *map(constant_name, numbers)}
        taken.update(name for one in methods for name in _names_bound(one))
        elsewhere = elsewhere or {}
        stated_sizes = sizes_of_file((one.bound.stated for one in methods), taken)
        sizes = {word: size for word, size in stated_sizes.items() if elsewhere.get(word, size) == size}
        # A word that functions have for several sizes stays with them, and with the outermost one.
        stated = {str(word) for one in methods for word in one.bound.stated}
        taken.update(constant_name(word) for word in stated - sizes.keys())
        return cls(numbers, taken, sizes, elsewhere)

    def constant(self, word: str, size: int) -> str:
        """The constant that the file's outermost function has for a size; empty where the word is another's.

        Functions whose word stands for another size keep it, then, and there is no constant of it.
        """
        name = constant_name(word)
        if name in self.taken or name == word or self.elsewhere.get(word, size) != size:
            return ""
        if self.sizes.setdefault(word, size) != size:
            del self.sizes[word]
            self.taken.add(name)
            return ""
        return name

    def function(self, one: SharedFunction) -> SharedFunction:
        """A function with constants."""
        bound, words = self._freed(one.bound)
        return dataclasses.replace(one, bound=bound, paragraphs=self._paragraphs(one.paragraphs, words))

    def layer_class(self, block: LayerClass) -> LayerClass:
        """A class of layers with constants."""
        return dataclasses.replace(block, methods=tuple(map(self._method, block.methods)))

    def body(self, paragraphs: Sequence[Paragraph]) -> tuple[WrittenParagraph, ...]:
        """The outermost function, which was written with constants."""
        return self._paragraphs(WrittenParagraph.of(paragraphs), {})

    @property
    def are_operators_repeated(self) -> bool:
        """Whether the file calls an operator by its own name more than once."""
        return any(count > 1 for count in self._operators.values())

    @property
    def words(self) -> frozenset[str]:
        """What its constants are called."""
        return frozenset(constant_name(word) for word in (*self.sizes, *self.numbers))

    def lines(self, used_outside: Set[str]) -> list[str]:
        """``EPS = 1e-5``, of what was used, by the outermost function also where no statement tells."""
        values: dict[str, float | int] = {**self.sizes, **self.numbers}
        used = (word for word in values if constant_name(word) in self._used | used_outside)
        return [f"{constant_name(word)} = {literal_text(values[word])}" for word in used]

    def _method(self, method: Method) -> Method:
        bound, words = self._freed(method.bound)
        return dataclasses.replace(method, bound=bound, paragraphs=self._paragraphs(method.paragraphs, words))

    def _freed(self, bound: BoundSizes) -> tuple[BoundSizes, dict[str, str]]:
        """The words that a function binds still, and by the others their constants."""
        words = {
            str(word): constant_name(word)
            for word, size in bound.stated.items()
            if self.sizes.get(str(word)) == size
        }
        stated = {word: size for word, size in bound.stated.items() if word not in words}
        told = tuple(_renamed(one, words, {}) for one in bound.told)
        return dataclasses.replace(bound, stated=stated, told=told), words

    def _paragraphs(
        self, paragraphs: Iterable[WrittenParagraph], words: Mapping[str, str]
    ) -> tuple[WrittenParagraph, ...]:
        found = []
        for one in paragraphs:
            lines = [_renamed_line(line, words, self.numbers) for line in one.lines]
            said = (line.said for line in lines if isinstance(line, PythonLine))
            for value in (each.value for each in said if each and each.value):
                self._used.update(words_in(value))
                self._operators.update(call.function for call in operators_in(value))
            found.append(dataclasses.replace(one, lines=tuple(lines)))
        return tuple(found)


def _names_bound(function: SharedFunction | Method) -> Iterator[str]:
    """What a function binds itself: a constant of that name would be hidden there."""
    yield from function.parameters
    lines = (line for one in function.paragraphs for line in one.lines)
    said = [line.said for line in lines if isinstance(line, PythonLine) and line.said is not None]
    for one in (*function.bound.told, *said):
        yield from one.targets


def operators_in(part: object) -> Iterator[OperatorCode]:
    """The calls of operators in an expression."""
    if isinstance(part, OperatorCode):
        yield part
    elif isinstance(part, tuple):
        for one in part:
            yield from operators_in(one)
    elif isinstance(part, Code) and dataclasses.is_dataclass(part):
        for field in dataclasses.fields(part):
            yield from operators_in(getattr(part, field.name))


def _renamed_line(line: str, words: Mapping[str, str], numbers: Mapping[str, float]) -> str:
    said = line.said if isinstance(line, PythonLine) else None
    if said is None or not (words or numbers) or not isinstance(line, PythonLine):
        return line
    return PythonLine.of(_renamed(said, words, numbers), line.kind)


def _renamed(
    said: PythonStatement, words: Mapping[str, str], numbers: Mapping[str, float]
) -> PythonStatement:
    value = said.value
    return said if value is None else dataclasses.replace(said, value=with_words(value, words, numbers))


def with_words(code: Code, words: Mapping[str, str], numbers: Mapping[str, float]) -> Code:
    """An expression that has other words for some of its names, and for numbers that it passes by a constant's word."""
    if isinstance(code, NameCode):
        return NameCode(words[code.name]) if code.name in words else code
    if isinstance(code, KeywordCode) and isinstance(code.value, LiteralCode):
        number = numbers.get(code.word)
        is_that = number is not None and str(code.value) == literal_text(number)
        return dataclasses.replace(code, value=NameCode(constant_name(code.word))) if is_that else code
    if not dataclasses.is_dataclass(code):
        return code
    parts = {one.name: getattr(code, one.name) for one in dataclasses.fields(code)}
    new = {
        name: _part(part, words, numbers) for name, part in parts.items() if isinstance(part, Code | tuple)
    }
    return dataclasses.replace(code, **{name: part for name, part in new.items() if part is not parts[name]})


def _part(part: object, words: Mapping[str, str], numbers: Mapping[str, float]) -> object:
    if isinstance(part, Code):
        return with_words(part, words, numbers)
    return tuple(_part(one, words, numbers) for one in part) if isinstance(part, tuple) else part
