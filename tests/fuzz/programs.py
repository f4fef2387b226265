"""Random programs as a user would write them, in text: a function of tensors, and how its arguments are made.

A program with weights is a module: what its statements call ``w0`` is ``self.w0``.

A program is drawn from a seed alone: the same seed gives the same text in any process. While it is drawn it runs in
eager, so that each statement is one that eager accepts, and sizes and dtypes are known for the next one. Values are
*exact* if they are the same numbers in any precision (arguments, their views and joins, whole numbers): only those are
compared, rounded or cast to whole numbers, since a rounding error must not decide between two results.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.fuzz.arguments import Argument, Content, Layout, Role

MOST_ELEMENTS = 40_000
_TRIES = 60  # for a statement that eager accepts
_MANY = 9  # statements: of a longer program most would be dropped if few of its values were returned


@dataclasses.dataclass(frozen=True)
class Program:
    """A function of tensors.

    Attributes:
        seed: Where it came from.
        arguments: What it takes.
        statements: Its lines.
        results: What it returns, names.
    """

    seed: int
    arguments: tuple[Argument, ...]
    statements: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def text(self) -> str:
        """The source of ``program(...)``, or of the module ``Program``."""
        names = ", ".join(argument.name for argument in self.given)
        lines = [*self.statements, f"return {', '.join(self.results)},"]
        if not self.weights:
            return "\n    ".join([f"def program({names}):", *lines]) + "\n"
        lines = [re.sub(r"\b(w\d+)\b", r"self.\1", line) for line in lines]
        head = f"class Program(nn.Module):\n    def forward(self, {names}):"
        return "\n        ".join([head, *lines]) + "\n"

    def __str__(self) -> str:
        told = "\n".join(f"# {argument}" for argument in self.arguments)
        return f"# seed {self.seed}\n{told}\n{self.text}"

    @property
    def trains(self) -> bool:
        """Whether gradients are wanted."""
        return any(argument.trains for argument in self.arguments)

    @property
    def given(self) -> tuple[Argument, ...]:
        """What a call gives."""
        return tuple(argument for argument in self.arguments if argument.role is Role.GIVEN)

    @property
    def weights(self) -> tuple[Argument, ...]:
        """What the module has."""
        return tuple(argument for argument in self.arguments if argument.role is not Role.GIVEN)

    def make_model(self, seed: int, device: str = "cpu") -> Callable[..., tuple[Tensor, ...]]:
        """The function, compiled by Python anew, or the module with weights for one call."""
        names: dict[str, Any] = {"torch": torch, "F": F, "nn": nn, "__name__": __name__}
        exec(compile(self.text, f"<string program {self.seed}>", "exec"), names)
        if not self.weights:
            return names["program"]  # type: ignore[no-any-return]
        module = names["Program"]()
        for one in self.weights:
            value = one.make(seed, device)
            if one.role is Role.BUFFER:
                module.register_buffer(one.name, value)
            else:
                setattr(module, one.name, nn.Parameter(value.detach(), requires_grad=one.trains))
        return module  # type: ignore[no-any-return]

    def make_arguments(self, seed: int, device: str = "cpu") -> list[Tensor]:
        """Tensors for one call."""
        return [argument.make(seed, device) for argument in self.given]


@dataclasses.dataclass(frozen=True)
class Known:
    """A value while a program is drawn.

    Attributes:
        name: Its variable.
        is_exact: See the module.
        is_own: The program made it and nothing else sees its memory as an expanded view: it may be written into.
    """

    name: str
    is_exact: bool
    is_own: bool = False


_VARIABLE = re.compile(r"\b[xhw]\d+\b")


def names_in(statement: str) -> set[str]:
    """The variables that a statement names."""
    return set(_VARIABLE.findall(statement))


def made_by(statement: str) -> str | None:
    """The variable that a statement makes; None if it writes into one."""
    match = re.match(r"(h\d+) = ", statement)
    return match[1] if match else None


class Writer:
    """Draws one program: statements one by one, each run in eager before it is taken."""

    def __init__(self, seed: int, arguments: Sequence[Argument]) -> None:
        self.draw = random.Random(seed)
        self.arguments = tuple(arguments)
        self.values: dict[str, Tensor] = {}
        self.known: list[Known] = []
        self.statements: list[str] = []
        for argument in arguments:
            self.values[argument.name] = argument.make(seed).detach()
            self.known.append(Known(argument.name, is_exact=True))
        self.trains = any(argument.trains for argument in arguments)
        self.seed = seed

    def choose(self, where: Callable[[Tensor], bool] = lambda _: True, exact: bool = False) -> Known | None:
        """A value of those that qualify; what was made last is likelier."""
        found = [one for one in self.known if where(self.values[one.name]) and (one.is_exact or not exact)]
        if not found:
            return None
        return self.draw.choice(found[-4:] if self.draw.random() < 0.6 else found)

    def __getitem__(self, one: Known) -> Tensor:
        return self.values[one.name]

    def weight(
        self,
        shape: Sequence[int],
        content: Content = Content.WEIGHT,
        role: Role = Role.PARAMETER,
        layout: Layout = Layout.CONTIGUOUS,
        dtype: torch.dtype = torch.float32,
    ) -> str:
        """A weight of the program's: a new one, or one that another statement has."""
        wanted = (tuple(shape), content, role, dtype)
        alike = [
            one
            for one in self.arguments
            if (one.shape, one.content, one.role, one.dtype) == wanted and one.name in self.needed
        ]
        # Of a buffer that another norm writes eager's derivative is wrong: it reads what is written afterwards.
        if alike and role is Role.PARAMETER and self.draw.random() < 0.3:
            return self.draw.choice(alike).name
        trains = self.trains and role is Role.PARAMETER and self.draw.random() < 0.9
        name = f"w{len(self.values)}"
        made = Argument(name, dtype, tuple(shape), layout, content, trains, role)
        self.arguments = (*self.arguments, made)
        self.values[name] = made.make(self.seed).detach()
        return name

    @property
    def needed(self) -> set[str]:
        """The variables that the statements name."""
        return set().union(*map(names_in, self.statements))

    def unread(self, made: Sequence[str]) -> list[str]:
        """Those values that no statement reads."""
        read = set().union(*(names_in(line) - {made_by(line)} for line in self.statements))
        return [name for name in made if name not in read]

    def add(self, expression: str, is_exact: bool, *, is_bounded: bool = False) -> bool:
        """Takes ``hN = expression`` if eager does.

        Args:
            is_exact: See the module.
            is_bounded: The statement sees to it that nothing on the way is large.
        """
        name = f"h{len([s for s in self.statements if made_by(s)])}"
        if not (is_bounded or self._is_small(f"{name} = {expression}")):
            return False
        if not self._runs(f"{name} = {expression}", name):
            return False
        value = self.values[name]
        exact = is_exact or not (value.dtype.is_floating_point or value.dtype is torch.bool)
        overlaps = any(step == 0 and size > 1 for step, size in zip(value.stride(), value.shape, strict=True))
        sources = {self.values[other].untyped_storage().data_ptr() for other in names_in(expression)}
        is_view = value.untyped_storage().data_ptr() in sources
        self.known.append(Known(name, exact, is_own=not overlaps and not is_view))
        return True

    def write(self, statement: str, into: Known, is_exact: bool) -> bool:
        """Takes a statement that writes into a value if eager does."""
        if not self._runs(statement, None):
            return False
        if not is_exact:  # neither it nor its views are exact any more
            at = self.values[into.name].untyped_storage().data_ptr()
            shared = {name for name, value in self.values.items() if value.untyped_storage().data_ptr() == at}
            self.known = [
                dataclasses.replace(one, is_exact=False) if one.name in shared else one for one in self.known
            ]
        return True

    def _is_small(self, statement: str) -> bool:
        """Whether nothing on the way to a value is large: what it is made of broadcasts, or is picked by, the rest."""
        picks = "[" in statement or "_select" in statement  # one may pick from itself, which is no broadcast
        named = _VARIABLE.findall(statement) if picks else names_in(statement)
        elements = sorted((self.values[name].numel() for name in named if name in self.values), reverse=True)
        if " @ " in statement:
            return elements[0] <= 5000
        return (
            " = torch.cat" in statement or math.prod(max(1, n) for n in elements[:2]) <= 200 * MOST_ELEMENTS
        )

    def _runs(self, statement: str, name: str | None) -> bool:
        before = {key: value.clone() for key, value in self.values.items()} if name is None else {}
        names = {"torch": torch, "F": F, **self.values}
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                exec(statement, names)
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
            for key, value in before.items():
                # An overlapping window cannot be written to: what it is a window of can.
                with torch.no_grad(), contextlib.suppress(RuntimeError):
                    self.values[key].copy_(value)
            return False
        if name is not None:
            value = names[name]
            if not isinstance(value, Tensor) or value.numel() > MOST_ELEMENTS or value.is_complex():
                return False
            self.values[name] = value
        self.statements.append(statement)
        return True


def write_program(
    seed: int,
    statements: Sequence[Callable[[Writer], bool]],
    train: bool = False,
    draw_arguments: Callable[[random.Random, bool], list[Argument]] | None = None,
    sizes: tuple[int, int] = (2, 9),
) -> Program:
    """The program of a seed.

    Args:
        statements: Each adds one statement of its kind to a writer, or says False where none fits.
        train: Floating-point arguments may require grad.
        draw_arguments: Tensors that fit the statements; by default of any shape.
        sizes: How many statements, at least and at most. A long program returns what nothing reads, too.
    """
    draw = random.Random(seed + 1_000_003)
    writer = Writer(seed, (draw_arguments or _arguments)(draw, train))
    wanted = draw.randint(*sizes)
    for _ in range(_TRIES):
        if len(writer.statements) >= wanted:
            break
        writer.draw.choice(statements)(writer)
    made = [one.name for one in writer.known if one.name.startswith("h")] or [writer.known[0].name]
    results = {made[-1], *draw.sample(made, min(len(made), draw.randint(0, 3)))}
    if sizes[1] > _MANY:
        results |= set(draw.sample(unread := writer.unread(made), min(len(unread), draw.randint(1, 4))))
    arguments, lines = writer.arguments, tuple(writer.statements)
    program = Program(seed, arguments, lines, tuple(name for name in made if name in results))
    return without_unused(program)


def without_unused(program: Program) -> Program:
    """The program without what no result needs; a write into memory stays if anything of it is needed."""
    statements = list(program.statements)
    while True:
        needed = set(program.results)
        for statement in reversed(statements):
            if made_by(statement) is None or made_by(statement) in needed:
                needed |= names_in(statement)
        kept = [s for s in statements if made_by(s) is None or made_by(s) in needed]
        if len(kept) == len(statements):
            break
        statements = kept
    arguments = tuple(one for one in program.arguments if one.name in needed)
    return dataclasses.replace(program, statements=tuple(statements), arguments=arguments)


_SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 24, 33)
_LONG = (65, 130, 300, 513, 1025)
_FLOATS = (torch.float32, torch.float32, torch.float32, torch.bfloat16, torch.float16, torch.float64)
_WHOLE = (torch.int64, torch.int64, torch.int32, torch.bool, torch.bool, torch.uint8, torch.int8, torch.int16)


def _arguments(draw: random.Random, train: bool) -> list[Argument]:
    """Two to five tensors, most of them of related shapes, so that they broadcast."""
    shape = [draw.choice(_SIZES) for _ in range(draw.choice((1, 2, 2, 2, 3, 3, 4)))]
    if len(shape) > 2:
        shape = [min(size, 13) for size in shape]
    kind = draw.random()
    if kind < 0.12:
        shape[draw.randrange(len(shape))] = draw.choice(_LONG)
    elif kind < 0.15:
        shape[draw.randrange(len(shape))] = 0
    elif kind < 0.18:
        shape = [draw.choice((1, 2)), 18_000]
    found = []
    for number in range(draw.randint(2, 5)):
        related = list(shape)
        if number and draw.random() < 0.5:
            related = [1 if draw.random() < 0.25 else size for size in related][
                draw.randint(0, len(shape) - 1) :
            ]
        if number and draw.random() < 0.15:
            draw.shuffle(related)
        is_float = number == 0 or draw.random() < 0.55
        dtype = draw.choice(_FLOATS if is_float else _WHOLE)
        if train and number == 0:
            dtype = torch.float32
        content = draw.choice((Content.NORMAL,) * 7 + (Content.SPECIAL, Content.WHOLE))
        trains = train and is_float and (number == 0 or draw.random() < 0.7)
        if trains and content is Content.SPECIAL:
            content = Content.NORMAL
        layout = draw.choice((Layout.CONTIGUOUS,) * 5 + tuple(Layout))
        found.append(Argument(f"x{number}", dtype, tuple(related), layout, content, trains))
    return found
