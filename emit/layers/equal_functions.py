"""Which functions do the same under other names, and which of the parts of derivatives stands for all that do.

What one calls ``d_x`` may be the other's ``d_hidden``, and whenever they drop what they made: the one that drops it
first stands for both. Where sizes differ, the function reads them all from the shapes of what it is given, and so what
these tell.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from longhand.emit.layers.function_remarks import with_overwritten
from longhand.emit.layers.layer_methods import Method, sizes_inside
from longhand.emit.layers.shared_functions import SharedFunction
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.text.python_code import NameCode, PythonStatement, SeveralCode
from longhand.emit.text.sizes import SizeWriter
from longhand.emit.text.told_sizes import BoundSizes
from longhand.lower.ir import Buffer
from longhand.schedule.named_plan import Number, PartInSymbols, PartSizes
from longhand.schedule.plan import PlanStep

WriteForm = Callable[[], Method | None]  # a part in one form; None where it has none
Drops = Mapping[object, tuple[int, ...]]  # by number of a name: behind which statements it is dropped


def as_any_names(method: Method) -> tuple[object, Drops]:
    """What a function does, with a number for each of its own names: equal where nothing but these differs.

    Beside it: where it drops what it made. What of a record is dropped belongs to what it does.
    """
    bound = method.bound
    statements = (*bound.told, *bound.padding, *method.statements)
    own = [*method.parameters, *bound.stated, *(word for one in statements for word in one.targets)]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(own))}
    stated = tuple(
        (numbers[word], _numbered(NameCode(size), numbers) if isinstance(size, str) else size)
        for word, size in bound.stated.items()
    )
    made = {*own} - {*method.parameters}
    kept: list[PythonStatement] = []
    drops: dict[object, tuple[int, ...]] = {}
    for one in statements:
        names = _dropped(one)
        if not names or not made.issuperset(names):
            kept.append(one)
            continue
        for name in names:
            drops[numbers[name]] = (*drops.get(numbers[name], ()), len(kept))
    does = (
        tuple(numbers[word] for word in method.parameters),
        stated,
        tuple(_numbered(one, numbers) for one in kept),
    )
    return does, drops


def _dropped(statement: PythonStatement) -> list[str]:
    """The names of ``del a, b``; none of any other statement."""
    value = statement.value
    if statement.word != "del" or not isinstance(value, SeveralCode):
        return []
    return [item.name if isinstance(item, NameCode) else "" for item in value.items]


def _numbered(part: Any, numbers: dict[str, int]) -> object:
    if isinstance(part, NameCode):
        root, *rest = _steps(part.name)
        return ("name", numbers.get(root, root), *rest)
    if isinstance(part, PythonStatement):
        targets = tuple(numbers.get(word, word) for word in part.targets)
        return (targets, _numbered(part.value, numbers), part.word, part.unpacks, part.depth)
    if isinstance(part, tuple):
        return tuple(_numbered(one, numbers) for one in part)
    if dataclasses.is_dataclass(part):
        fields = (getattr(part, one.name) for one in dataclasses.fields(part) if one.compare)
        return (type(part), *(_numbered(one, numbers) for one in fields))
    return part


def _steps(name: str) -> list[str]:
    """The variable that an expression begins with, and what is taken of it."""
    ends = [place for sign in ".[" if (place := name.find(sign)) > 0]
    end = min(ends, default=len(name))
    return [name[:end], name[end:]]


@dataclasses.dataclass(frozen=True)
class _FormOfPart:
    """A function in one of its forms: what it does, when it drops what, and its text."""

    does: object
    drops: Drops
    method: Method

    @classmethod
    def of(cls, method: Method) -> _FormOfPart:
        does, drops = as_any_names(method)
        return cls(does, drops, method)

    def joined(self, other: _FormOfPart) -> _FormOfPart | None:
        """The one that stands for both; None where neither does."""
        if self.does != other.does:
            return None
        if _covers(self.drops, other.drops):
            return self
        return other if _covers(other.drops, self.drops) else None


def _form_of(method: Method | None) -> _FormOfPart | None:
    return None if method is None else _FormOfPart.of(method)


class PartFunctions:
    """The functions for parts of derivatives of a file, by name.

    Each is known in its forms, from the one for a single module's sizes to the ones for those of several; from the
    first on that does for two parts it is for both.
    """

    def __init__(self) -> None:
        self._forms: dict[
            str, tuple[_FormOfPart | None, ...]
        ] = {}  # None: none, or for fewer parts than it is for
        self._texts: dict[str, Method] = {}  # the part whose words a function has
        self.functions: dict[str, SharedFunction] = {}

    def known(self, method: Method, others: Sequence[WriteForm]) -> str:
        """The function that does the same already, or nothing.

        Args:
            method: The part, in words for its own sizes.
            others: It, in the ways that do for several sizes.
        """
        written: list[Method | None] = [method]
        for place in range(1 + len(others)):
            written += [others[place - 1]()] if place else []
            wanted = _form_of(written[place])
            for name in self._forms if wanted is not None else ():
                known = self._first(name) if place == 0 else self._form(name, place)
                joined = known.joined(wanted) if known is not None and wanted is not None else None
                if joined is not None:
                    self._join(name, place, joined, others)
                    self._texts[name] = method if joined is wanted else self._texts[name]
                    return name
        return ""

    def is_in_symbols(self, name: str) -> bool:
        """Whether a function is one for several parts by its sizes as symbols, its last form."""
        forms = self._forms[name]
        return len(forms) > 1 and all(form is None for form in forms[:-1])

    def _form(self, name: str, place: int) -> _FormOfPart | None:
        forms = self._forms[name]
        return forms[place] if place < len(forms) else None

    def _join(self, name: str, place: int, joined: _FormOfPart, others: Sequence[WriteForm]) -> None:
        """Makes a function that of one more part, in the form in which it does for it, and in those that do, too."""
        first = next(at for at, form in enumerate(self._forms[name]) if form is not None)
        forms: list[_FormOfPart | None] = [None] * max(place, first) + [joined]
        for at in range(len(forms), len(self._forms[name])):
            known, wanted = self._form(name, at), _form_of(others[at - 1]()) if at <= len(others) else None
            both = known.joined(wanted) if known is not None and wanted is not None else None
            forms.append(both)
        self._set(name, tuple(forms))

    def add(self, name: str, method: Method, others: Sequence[WriteForm]) -> None:
        """A new one, that says nothing of itself yet."""
        forms = (method, *(write() for write in others))
        self._forms[name] = tuple(map(_form_of, forms))
        self._texts[name] = method
        self.functions[name] = SharedFunction(name, "", method.parameters, method.bound, method.paragraphs)

    def prefer(self, name: str, method: Method) -> None:
        """Takes this text of a known function, unless it would be another by its sizes or by when it drops what."""
        form, first = _FormOfPart.of(method), self._first(name)
        if (form.does, form.drops) == (first.does, first.drops):
            self._set(name, tuple(form if one is first else one for one in self._forms[name]))
            self._texts[name] = method

    def is_by(self, name: str, method: Method) -> bool:
        """Whether a function's text has the words of a part."""
        return self._texts[name] is method

    def say(self, name: str, lines: Sequence[str]) -> None:
        """Its docstring."""
        told = with_overwritten(lines, self._first(name).method.overwritten)
        self.functions[name] = dataclasses.replace(self.functions[name], remark=told)

    def _first(self, name: str) -> _FormOfPart:
        return next(form for form in self._forms[name] if form is not None)

    def _set(self, name: str, forms: tuple[_FormOfPart | None, ...]) -> None:
        self._forms[name] = forms
        method = self._first(name).method
        self.functions[name] = dataclasses.replace(
            self.functions[name],
            parameters=method.parameters,
            bound=method.bound,
            paragraphs=method.paragraphs,
        )


@dataclasses.dataclass(frozen=True)
class PartForms:
    """The ways in which a part of a derivative is written that does what others do.

    Attributes:
        inside: Its writer, which knows calls by the identity of its steps.
        steps: What it does.
        sizes: Its sizes.
        variables: Its variables.
        inputs: The buffers that it is given, or reaches.
        write: Writes it: with what writer, as which steps, with what words for sizes.
    """

    inside: BodyWriter
    steps: Sequence[PlanStep]
    sizes: PartSizes
    variables: dict[str, str]
    inputs: Sequence[str]
    write: Callable[[BodyWriter, Sequence[PlanStep], SizeWriter], Method]

    def plain(self) -> Method:
        """It, in words for its own sizes."""
        return self.write(self.inside, self.steps, self._sizes_inside(self.inside))

    def told(self) -> Method | None:
        """As for its own sizes, but that what it is given tells those which differ; None where that is none of them."""
        method = self.plain()
        bound = _bound_by(self.sizes, method.bound, self.variables)
        return None if bound == method.bound else dataclasses.replace(method, bound=bound)

    def reading(self) -> Method:
        """It, with sizes that are read from what it is given."""
        body, steps = _with_part_sizes(self.inside, self.steps, self.sizes)
        sizes = self._sizes_inside(body, reads_shapes=True)
        method = self.write(body, steps, sizes)
        return dataclasses.replace(method, bound=_bound_by(self.sizes, method.bound, self.variables))

    def in_symbols(self) -> Method | None:
        """It, with symbols for sizes; None where these are not the same for all, or its function is given too much."""
        part = self.sizes.in_symbols
        if part is None:
            return None
        body, steps = _with_symbols(self.inside, self.steps, part)
        numbers = [word for word, _ in part.numbers]
        sizes = self._sizes_inside(body, numbers=numbers, symbols=part.symbols)
        method = self.write(body, steps, sizes)
        own = dataclasses.replace(method, parameters=(*method.parameters, *numbers))
        return own if part.may_be_given(method.needed) else None

    def _sizes_inside(self, body: BodyWriter, **told: Any) -> SizeWriter:
        return sizes_inside(self.inputs, body, self.variables, uneven=self.sizes.uneven, **told)

    def numbers(self, method: Method | None) -> tuple[tuple[str, Number], ...]:
        """What a call of the function with symbols is given beside tensors; nothing of any other."""
        part = self.sizes.in_symbols
        if method is None or part is None:
            return ()
        return (*((word, part.given[word]) for word in method.needed), *part.numbers)


def _with_part_sizes(
    inside: BodyWriter, steps: Sequence[PlanStep], sizes: PartSizes
) -> tuple[BodyWriter, list[PlanStep]]:
    """The writer of a part, and its steps, with numbers that sizes tell.

    Args:
        inside: Its writer, which knows calls by the identity of its steps.
        steps: What the part does.
        sizes: The part's.
    """
    if not sizes.steps and not sizes.shapes:
        return inside, list(steps)
    buffers = inside.plan.buffers
    told = {name: dataclasses.replace(buffers[name], shape=shape) for name, shape in sizes.shapes.items()}
    return _with_steps(inside, steps, sizes.steps, told)


def _with_symbols(
    inside: BodyWriter, steps: Sequence[PlanStep], part: PartInSymbols
) -> tuple[BodyWriter, list[PlanStep]]:
    """The writer of a part whose sizes are symbols, and its steps."""
    return _with_steps(inside, steps, part.steps, part.buffers)


def _with_steps(
    inside: BodyWriter,
    steps: Sequence[PlanStep],
    instead: Mapping[int, PlanStep],
    buffers: Mapping[str, Buffer],
) -> tuple[BodyWriter, list[PlanStep]]:
    """A writer with other steps and other buffers in the place of some.

    Args:
        inside: Its writer, which knows calls by the identity of its steps.
        steps: What it would write.
        instead: The other steps, by the identity of those.
        buffers: The other buffers, by name.
    """
    own, body = [instead.get(id(step), step) for step in steps], copy.copy(inside)
    pairs = zip(steps, own, strict=True)
    body.calls = {id(new): inside.calls[id(old)] for old, new in pairs if id(old) in inside.calls}
    body.plan = dataclasses.replace(inside.plan, buffers=ChainMap({**buffers}, {**inside.plan.buffers}))
    return body, own


def _bound_by(sizes: PartSizes, bound: BoundSizes, variables: Mapping[str, str]) -> BoundSizes:
    """The words that a part binds; those of sizes that differ from module to module by what has them.

    Args:
        sizes: The part's.
        bound: The words, with this part's own sizes.
        variables: The part's.
    """
    stated: dict[str, int | str] = {}
    for word, size in bound.stated.items():
        told = sizes.tells(word, size)
        stated[word] = size if told is None else f"{variables[told[0]]}.shape[{told[1]}]"
    return dataclasses.replace(bound, stated=stated)


def _covers(one: Mapping[object, tuple[int, ...]], other: Mapping[object, tuple[int, ...]]) -> bool:
    """Whether all that one function drops another drops as early."""
    return all(
        name in one and (one[name] == places or (len(places) == len(one[name]) == 1 and one[name] <= places))
        for name, places in other.items()
    )
