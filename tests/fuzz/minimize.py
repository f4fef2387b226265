"""A failing program made smaller: statements, results and arguments go as long as it fails in the same way."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.fuzz.arguments import Argument, Content, Layout, Role
from tests.fuzz.programs import Program, made_by, names_in, without_unused


def minimize(program: Program, fails: Callable[[Program], bool], most_runs: int = 60) -> Program:
    """The smallest program that is found.

    Args:
        fails: Whether a program fails as the first one did.
        most_runs: How many programs to try.
    """
    runs = 0
    while True:
        for smaller in _smaller(program):
            runs += 1
            if runs > most_runs:
                return program
            if fails(smaller):
                program = smaller
                break
        else:
            return program


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with less of everything, the smallest first."""
    if len(program.results) > 1:
        for result in program.results:
            yield without_unused(dataclasses.replace(program, results=(result,)))
    if len(program.results) > 2:
        for result in program.results:
            fewer = tuple(other for other in program.results if other != result)
            yield without_unused(dataclasses.replace(program, results=fewer))
    yield from _cut(program)
    yield from _shorter(program)
    for place, argument in enumerate(program.arguments):
        content = argument.content if argument.role is not Role.GIVEN else Content.NORMAL
        plain = dataclasses.replace(argument, layout=Layout.CONTIGUOUS, content=content, trains=False)
        if plain != argument:
            arguments = (*program.arguments[:place], plain, *program.arguments[place + 1 :])
            yield dataclasses.replace(program, arguments=arguments)


def _shorter(program: Program) -> Iterator[Program]:
    """One statement less; what needs its value goes, too, or takes another value in its place."""
    for place in reversed(range(len(program.statements))):
        name = made_by(program.statements[place])
        rest = [*program.statements[:place], *program.statements[place + 1 :]]
        if name is None:
            yield without_unused(dataclasses.replace(program, statements=tuple(rest)))
            continue
        sources = sorted(other for other in names_in(program.statements[place]) - {name} if other[0] != "w")
        for other in sources:
            swapped = tuple(_renamed(statement, name, other) for statement in rest)
            results = tuple(dict.fromkeys(other if result == name else result for result in program.results))
            if any(result.startswith("h") for result in results):
                yield without_unused(dataclasses.replace(program, statements=swapped, results=results))
        if program.results == (name,):
            for other in sources:
                if other.startswith("h"):
                    yield without_unused(dataclasses.replace(program, results=(other,)))


def _cut(program: Program) -> Iterator[Program]:
    """A value becomes an argument, and what made it goes."""
    values = values_of(program)
    for place in reversed(range(len(program.statements) - 1)):
        name = made_by(program.statements[place])
        if name is None or name not in values or name in program.results:
            continue
        value = values[name]
        content = Content.NORMAL if value.dtype.is_floating_point else Content.WHOLE
        argument = Argument(f"x{90 + place}", value.dtype, tuple(value.shape), _layout_of(value), content)
        if value.dtype.is_floating_point and program.trains:
            argument = dataclasses.replace(argument, trains=True)
        statements = [*program.statements[:place], *program.statements[place + 1 :]]
        renamed = tuple(_renamed(statement, name, argument.name) for statement in statements)
        arguments = (*program.arguments, argument)
        yield without_unused(dataclasses.replace(program, arguments=arguments, statements=renamed))


def _layout_of(value: Tensor) -> Layout:
    is_image = value.dim() == 4 and not value.is_contiguous()
    is_last = is_image and value.is_contiguous(memory_format=torch.channels_last)
    return Layout.CHANNELS_LAST if is_last else Layout.CONTIGUOUS


def values_of(program: Program) -> dict[str, Tensor]:
    """What the statements make, by name."""
    names = {"torch": torch, "F": F}
    names |= {a.name: a.make(program.seed).detach() for a in program.arguments}
    found: dict[str, Tensor] = {}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for statement in program.statements:
            exec(statement, names)
            name = made_by(statement)
            if name is not None:
                found[name] = names[name]
    return found


def _renamed(statement: str, name: str, other: str) -> str:
    return re.sub(rf"\b{name}\b", other, statement)
