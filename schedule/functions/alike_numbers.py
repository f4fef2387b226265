"""Numbers that modules give the same calls of libraries, and in which they differ: ``stride=stride``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import sympy

from longhand.lower.ir import Extern, Size, View

Number = Size  # of a call: what it is, or a symbol: a parameter of the function that it stands in
KEYWORDS = ("stride", "padding", "dilation", "groups", "is_causal")  # of what may differ


class DifferError(Exception):
    """Modules do not do the same."""


def require(is_so: bool) -> None:
    """Ends the walk where something differs."""
    if not is_so:
        raise DifferError


class DifferingNumbers:
    """Finds them, and puts parameters in their places.

    Args:
        variables: Of the first module's buffers.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._known: dict[tuple[str, ...], tuple[str, tuple[Number, ...]]] = {}

    @property
    def known(self) -> tuple[tuple[str, tuple[Number, ...]], ...]:
        """(parameter, what it is for each module)."""
        return tuple(self._known.values())

    def apart(self, steps: list[Extern]) -> list[Extern]:
        """The calls with parameters in the place of numbers that differ."""
        schema = steps[0].target._schema.arguments
        steps = _of_one_length(steps)
        for place, argument in enumerate(schema):
            if argument.name not in KEYWORDS or "cudnn" in str(steps[0].target):
                continue
            given = [_given(step, place, argument) for step in steps]
            numbers = [_uniform(value) for value in given]
            told = zip(numbers, given, strict=True)
            is_same = len({repr(value if number is None else number) for number, value in told}) == 1
            if is_same or (argument.name == "groups" and all(map(is_of_single_channels, steps))):
                continue
            require(None not in numbers)
            symbol = self.parameter(argument.name, [one for one in numbers if one is not None], steps[0])
            steps = [
                _put(
                    step,
                    place,
                    argument.name,
                    [symbol] * len(value) if isinstance(value, list | tuple) else symbol,
                )
                for step, value in zip(steps, given, strict=True)
            ]
        return steps

    def parameter(self, keyword: str, numbers: Sequence[Number], step: Extern | None = None) -> sympy.Symbol:
        """The parameter for what each of them is given for a keyword, in a call of a library or of another function."""
        column = (keyword, *map(repr, numbers))
        if column not in self._known:
            word = keyword
            if any(keyword == known[0] for known in self._known):
                require(step is not None and len(step.outputs) == 1)
                word = f"{self._variables[step.outputs[0]]}_{keyword}" if step is not None else ""
            require(all(word != known for known, _ in self._known.values()))
            self._known[column] = word, tuple(numbers)
        return sympy.Symbol(self._known[column][0])


def _given(step: Extern, place: int, argument: Any) -> Any:
    """What a call is given for an argument of its schema."""
    if place < len(step.args) and not argument.kwarg_only:
        return step.args[place]
    return dict(step.kwargs).get(argument.name, argument.default_value)


def _of_one_length(steps: list[Extern]) -> list[Extern]:
    """The calls with as many arguments by position, by defaults where some leave the last ones out."""
    longest = max(len(step.args) for step in steps)
    defaults = [argument.default_value for argument in steps[0].target._schema.arguments[:longest]]
    return [dataclasses.replace(step, args=(*step.args, *defaults[len(step.args) :])) for step in steps]


def _put(step: Extern, place: int, name: str, value: Any) -> Extern:
    if place < len(step.args):
        args = (*step.args[:place], value, *step.args[place + 1 :])
        return dataclasses.replace(step, args=args)
    return dataclasses.replace(step, kwargs=tuple(sorted({**dict(step.kwargs), name: value}.items())))


def _uniform(value: Any) -> int | None:
    """The one number that an argument is, for each dimension; None if it is no such."""
    items = value if isinstance(value, list | tuple) else [value]
    is_one = bool(items) and all(isinstance(item, int) and item == items[0] for item in items)
    return items[0] if is_one else None


def told_by_channels(
    numbers: Sequence[tuple[str, Number]], steps: Sequence[object], given: Sequence[str]
) -> dict[str, int]:
    """The numbers that are how many channels a tensor has, of convolutions of each by itself: which tensor that is.

    Args:
        numbers: What a function is called with, by its parameters.
        steps: What it does, with its parameters in the place of numbers.
        given: The tensors that it is called with.
    """
    tensor_of: dict[str, int] = {}
    for word, number in numbers:
        asked = [step for step in steps if isinstance(step, Extern) and _groups(step) == sympy.Symbol(word)]
        images = {_channels_of(step, number) for step in asked}
        image = images.pop() if len(images) == 1 else None
        if image in given:
            tensor_of[word] = given.index(image)
    return tensor_of


def _groups(step: Extern) -> object:
    """What a call is given for the groups of its channels; None if it has none."""
    places = enumerate(step.target._schema.arguments)
    return next((_given(step, place, one) for place, one in places if one.name == "groups"), None)


def _channels_of(step: Extern, number: Number) -> str | None:
    """The image of a convolution of each of so many channels by itself."""
    given = {one.name: _given(step, place, one) for place, one in enumerate(step.target._schema.arguments)}
    weight, image = given.get("weight"), given.get("input")
    if not isinstance(weight, View) or not isinstance(image, View) or number == 1:
        return None
    is_of_each = tuple(weight.shape[:2]) == (number, 1) and len(image.shape) == len(weight.shape)
    return image.buffer if is_of_each and not image.calls else None


def is_of_single_channels(step: Extern) -> bool:
    """Whether a convolution works on each channel by itself: the weight tells how many these are."""
    given = {one.name: _given(step, place, one) for place, one in enumerate(step.target._schema.arguments)}
    weight, count = given.get("weight"), given.get("groups")
    return isinstance(weight, View) and count not in (None, 1) and tuple(weight.shape[:2]) == (count, 1)
