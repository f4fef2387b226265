"""Several samples of one op in one program: what capture, the compiler and g++ cost is paid once for all of them.

Only a group in which every sample is right by itself (each one's results, gradients and arguments, as the judge looks
at them) says something of its samples: that they are right. Whatever else happens to a group, its samples are judged
in smaller ones, in the end each in a program of its own: no other verdict comes from a group. Samples that the judge
named go alone at once, the others together; where nothing is named (the group was refused, or raised, or ran in
eager), samples go alone until one is right, and the others in halves. Not in groups: what eager raises at, what draws
random numbers, memory that nobody wrote into, and groups that are known to have failed or to have ended the process.
"""

from __future__ import annotations

import ast
import dataclasses
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from longhand.errors import LonghandError
from tests.autograd.eager_runs import EagerRuns
from tests.autograd.op_programs import SEED, Form, Program, Step
from tests.autograd.op_sweep import UNINITIALIZED, Case, Door, Outcome, difference, through

__all__ = ["Group", "GroupVerdict", "Judges", "judged_together", "may_be_grouped", "settle"]

_SHARED_NAMES = ("torch", "op")  # which mean the same in every sample of an op


@dataclasses.dataclass(frozen=True)
class Group(Program):
    """Programs of one op and dtype as one, which takes the arguments of all and returns a list of their results.

    Attributes:
        members: The programs.
    """

    members: tuple[Program, ...] = ()

    @classmethod
    def of(cls, members: Sequence[Program]) -> Group:
        """These programs, one after the other."""
        parameters: list[str] = []
        body: list[str] = []
        names: dict[str, Any] = {}
        for place, member in enumerate(members):
            own = _Renamed(member, place)
            parameters += own.parameters
            body += own.lines
            names |= own.names
        results = ", ".join(f"results_{place}" for place in range(len(members)))
        lines = "\n    ".join([*body, f"return [{results}]"])
        text = f"def program({', '.join(parameters)}):\n    {lines}\n"
        first = members[0]
        tensors = tuple(tensor for member in members for tensor in member.tensors)
        return cls(first.name, -1, Form.ALONE, text, names, tensors, first.dtype, tuple(members))

    def arguments(self, *, train: bool, dtype: torch.dtype | None = None) -> list[torch.Tensor]:
        """Those of the members, each with a `one` of its own; no two members share any memory."""
        return [given for member in self.members for given in member.arguments(train=train, dtype=dtype)]


class _Renamed(ast.NodeTransformer):
    """A member's statements, every name with the member's place behind it."""

    def __init__(self, member: Program, place: int) -> None:
        function = ast.parse(member.text).body[0]
        assert isinstance(function, ast.FunctionDef)
        self._place = place
        own = {argument.arg for argument in function.args.args} | (set(member.names) - {*_SHARED_NAMES})
        own |= {
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        self._own = own
        self.parameters = [self._name(argument.arg) for argument in function.args.args]
        self.names = {
            name if name in _SHARED_NAMES else self._name(name): value for name, value in member.names.items()
        }
        self.lines = [ast.unparse(self.visit(statement)) for statement in function.body]

    def _name(self, name: str) -> str:
        return f"{name}_{self._place}"

    def visit_Name(self, node: ast.Name) -> ast.Name:  # ast asks for this name
        """A variable."""
        return ast.Name(self._name(node.id), node.ctx) if node.id in self._own else node

    def visit_Return(self, node: ast.Return) -> ast.Assign:
        """What the member returns."""
        assert node.value is not None
        target = ast.Name(f"results_{self._place}", ast.Store())
        return ast.copy_location(ast.Assign([target], self.visit(node.value)), node)


@dataclasses.dataclass(frozen=True)
class GroupVerdict:
    """What became of a group.

    Attributes:
        words: Why it is not right; empty if every member is.
        named: The numbers of the members that the judge found something at.
        has_raised: Whether it ended in an error that is none of longhand's own: a fault, whatever its members do alone.
    """

    words: str = ""
    named: frozenset[int] = frozenset()
    has_raised: bool = False

    @property
    def is_right(self) -> bool:
        """Every member is."""
        return not self.words


def may_be_grouped(runs: EagerRuns) -> bool:
    """Whether a program can be judged next to others."""
    return runs.program.name not in UNINITIALIZED and runs.raised is None and not runs.draws


def judged_together(runs: Sequence[EagerRuns], door: Door) -> GroupVerdict:
    """Whether each of these programs is right in the program of all of them."""
    train = runs[0].train
    group = Group.of([one.program for one in runs])
    reasons: list[str] = []
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder, torch.set_grad_enabled(train):
        warnings.simplefilter("ignore")
        try:
            function = through(Case(group, door, train), Path(folder), reasons)
            found = _seen_apart(function, group, train=train)
        except Exception as error:
            has_raised = not isinstance(error, LonghandError)
            return GroupVerdict(f"{type(error).__name__}: {error}", has_raised=has_raised)
        if reasons:
            return GroupVerdict(reasons[0])
        if found is None:
            return GroupVerdict("results share memory with another sample's")
        words = {}
        for one, own in zip(runs, found, strict=True):
            kind, off = difference(Case(one.program, door, train), own, one)
            if kind is not Outcome.RIGHT:
                words[one.program.number] = off or kind.value
    if words:
        return GroupVerdict("; ".join(f"{number}: {off}" for number, off in words.items()), frozenset(words))
    return GroupVerdict()


def _seen_apart(function: Callable[..., Any], group: Group, *, train: bool) -> list[dict[str, Any]] | None:
    """What `seen` sees of each member, after one backward pass of all; None if two have memory in common."""
    torch.default_generator.manual_seed(SEED)
    arguments = [member.arguments(train=train) for member in group.members]
    results = function(*(given for own in arguments for given in own))
    steps = [Step(given, own) for given, own in zip(arguments, results, strict=True)]
    if carrying := [value for step in steps for value in step.carrying]:
        torch.autograd.backward(carrying, [weight for step in steps for weight in step.weights])
    owners: dict[int, int] = {}
    for place, step in enumerate(steps):
        for value in (*step.arguments, *step.tensors):
            is_memory = value.layout is torch.strided and value.numel()
            if is_memory and owners.setdefault(value.untyped_storage().data_ptr(), place) != place:
                return None
    return [step.seen() for step in steps]


@dataclasses.dataclass(frozen=True)
class Judges:
    """What judges; each tells of what it found.

    Attributes:
        together: A group, by its programs' runs.
        alone: One program; whether it was right.
        has_failed: Whether a group is known not to be right, so that it need not be tried.
    """

    together: Callable[[Sequence[EagerRuns]], GroupVerdict]
    alone: Callable[[EagerRuns], bool]
    has_failed: Callable[[Sequence[EagerRuns]], bool]


def settle(runs: Sequence[EagerRuns], judges: Judges) -> None:
    """Judges every program: in one group if that is right, else in smaller ones."""
    if len(runs) <= 1:
        for one in runs:
            judges.alone(one)
    elif judges.has_failed(runs):
        _settle_halves(runs, judges)
    elif not (verdict := judges.together(runs)).is_right:
        left = list(runs)
        if verdict.named:
            for one in runs:
                if one.program.number in verdict.named:
                    judges.alone(one)
                    left.remove(one)
            settle(left, judges)
        else:
            while left and not judges.alone(left.pop(0)):
                pass
            _settle_halves(left, judges)


def _settle_halves(runs: Sequence[EagerRuns], judges: Judges) -> None:
    middle = (len(runs) + 1) // 2
    settle(runs[:middle], judges)
    settle(runs[middle:], judges)
