"""The lock's picture of the plan: what `longhand view --html` draws and no other file of the unit says.

Which kernel does what is in the unit's text. Which tensor goes from one kernel to the next, how many bytes it has, when
its memory ends, and why two kernels are not one: that is the scheduler's, and gone when the unit is written. To ask it
again would run the model, which whoever reviews may not want to; so the lock keeps it. It is written from the plan
alone, the same in every process, as names and not as numbers, so that a change of the model changes the lines that it
is about. A repeat is told once, with its paths. It is bounded: of more steps or refusals than anybody looks at the
first are kept, and how many are left out is told. `lock_schema` holds what may stand here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from longhand.capture.graph import InputKind, differentiated
from longhand.lower.ir import Buffer, Extern, Load, Size, Store, View, arguments
from longhand.schedule.named_plan import (
    FirstCall,
    KernelNames,
    LayerCall,
    Loop,
    ModelStep,
    NamedPlan,
    kernels_of,
    plain_steps,
)
from longhand.schedule.plan import (
    Access,
    Allocate,
    KernelPlan,
    Launch,
    PlanStep,
    Release,
    Repeat,
    Reuse,
    buffers_made,
)

VERSION = 1
SAVED = "saved"  # the kind of what a forward pass made and a backward pass reads
MOST_STEPS, MOST_REFUSALS, MOST_QUOTES = 2_000, 200, 12


def picture_of(passes: list[NamedPlan]) -> dict[str, Any]:
    """The section.

    Args:
        passes: The forward, and in training the backward.
    """
    values = {
        one.names.kernels[key].kernel: _values(kernel, one.names.kernels[key], one)
        for key, (kernel, one) in kernels_of(passes).items()
    }
    return {
        "version": VERSION,
        "kernels": {name: words for name, words in values.items() if words},
        "passes": [_PassPicture(one).to_json() for one in passes],
    }


class _PassPicture:
    """One pass: its buffers by names that are told apart, its steps, its refusals."""

    def __init__(self, one: NamedPlan) -> None:
        self.one = one
        self.sizes = one.plan.program.graph.examples
        self.ids: dict[str, str] = {}
        self._taken: set[str] = set()
        self._n_steps = 0
        self._repeats: list[tuple[dict[str, Any], Repeat, int]] = []
        self.n_left_out = 0
        results = (view.buffer for view in one.plan.results if isinstance(view, View))
        self.results = dict.fromkeys(filter(None, results))
        self.steps = self._steps(one.names.steps)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        for told, repeat, pattern in self._repeats:
            last = dict(zip(repeat.outputs[-1], repeat.outputs[pattern], strict=True))
            # By what later steps read of the last run: what it is called in the one that is told.
            told["ends"] = {
                self.ids[one]: self.ids[its]
                for one, its in last.items()
                if one in self.ids and its in self.ids
            }
        refusals = self._refusals()
        plain: dict[str, Any] = {
            "steps": self.steps,
            "results": [self.ids[name] for name in self.results if name in self.ids],
            "refusals": refusals[:MOST_REFUSALS],
            "buffers": {
                self.ids[name]: self._described(buffer)
                for name, buffer in self.one.plan.buffers.items()
                if name in self.ids
            },
        }
        left_out = {"steps": self.n_left_out, "refusals": max(0, len(refusals) - MOST_REFUSALS)}
        if any(left_out.values()):
            plain["left_out"] = left_out
        return plain

    def _id(self, buffer: str) -> str:
        """The variable that holds a buffer; of several that one variable holds in turn the later ones are numbered."""
        if buffer not in self.ids:
            word = self._word(buffer)
            unique, number = word, 1
            while unique in self._taken:
                number += 1
                unique = f"{word} ({number})"
            self._taken.add(unique)
            self.ids[buffer] = unique
        return self.ids[buffer]

    def _word(self, buffer: str) -> str:
        entry = self.one.words.inputs.get(buffer)
        if entry is not None and entry.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            return entry.target
        inside = (layer.variables.get(buffer, "") for layer in self.one.names.layers.values())
        named = (self.one.names.buffers.get(buffer, ""), *filter(str.isidentifier, inside))
        return next(filter(None, named), "") or next(self.one.words.candidates(buffer))

    def _all(self, buffers: Iterable[str]) -> list[str]:
        return [self._id(name) for name in dict.fromkeys(filter(None, buffers))]

    def _described(self, buffer: Buffer) -> str:
        """``float32 (4, 512) weight``: on one line, so that a diff shows it whole."""
        sizes = ", ".join(str(self._number(size)) for size in buffer.shape)
        graph = self.one.plan.program.graph
        kind = SAVED if buffer.name in graph.given else buffer.kind.value
        return f"{str(buffer.dtype).removeprefix('torch.')} ({sizes}) {kind}"

    def _steps(self, steps: Iterable[ModelStep]) -> list[dict[str, Any]]:
        drawn_steps = []
        for step in steps:
            if self._n_steps >= MOST_STEPS:
                self.n_left_out += 1
                continue
            self._n_steps += 1
            match step:
                case Loop():
                    drawn_steps.append(self._repeat(step.repeat, step.pattern, bool(step.alternatives)))
                case FirstCall() | LayerCall():
                    drawn_steps.append(self._repeat(step.repeat, 0, False))
                case _:
                    drawn_steps += [
                        self._step(one) for one in plain_steps(step) if not isinstance(one, Repeat)
                    ]
        return drawn_steps

    def _repeat(self, repeat: Repeat, pattern: int, varies: bool) -> dict[str, Any]:
        """Runs of one function, told by the one that the function is printed from."""
        takes, made = repeat.inputs[pattern], repeat.outputs[pattern]
        # What a run gives for what the next one takes stands at the same place in each.
        place = {name: at for at, name in enumerate(repeat.outputs[0])}
        then = repeat.inputs[1] if len(repeat.inputs) > 1 else ()
        told: dict[str, Any] = {
            "repeat": list(repeat.paths),
            "takes": self._all(takes),
            "begins": {
                self._id(its): self._id(first)
                for its, first in zip(takes, repeat.inputs[0], strict=True)
                if its != first
            },
            # Its results, and what it saves for the backward pass, which the function returns as a record.
            "gives": self._all(
                [*made, *(name for name in self._made(repeat.runs[pattern]) if name in self.results)]
            ),
            "next": {
                self._id(taken): self._id(made[place[given]])
                for taken, given in zip(takes, then, strict=False)
                if given in place
            },
            "steps": self._steps(repeat.runs[pattern]),
        }
        if varies:
            told["varies"] = True
        self._repeats.append((told, repeat, pattern))
        return told

    @staticmethod
    def _made(steps: Iterable[PlanStep]) -> Iterator[str]:
        for step in steps:
            yield from buffers_made(step)

    def _step(self, step: PlanStep) -> dict[str, Any]:
        match step:
            case Launch():
                return self._launch(step)
            case Extern():
                return self._library_call(step)
            case Allocate():
                return {"make": self._id(step.buffer)}
            case Reuse():
                return {"make": self._id(step.buffer), "of": self._id(step.of)}
            case Release():
                return {"drop": self._all(step.buffers)}
        raise AssertionError(step)

    def _launch(self, step: Launch) -> dict[str, Any]:
        kernel = self.one.plan.kernels[step.kernel]
        pointers = [pointer for pointer in kernel.pointers if not pointer.scratch]
        passed = list(zip(pointers, step.buffers, strict=True))
        told = {
            "kernel": self.one.names.kernels[step.kernel].kernel,
            "reads": self._all(name for pointer, name in passed if pointer.access is not Access.WRITE),
            "writes": self._all(name for pointer, name in passed if pointer.access is not Access.READ),
            "bytes": self._number(step.bytes_moved),
            "quotes": self._quotes(step.origins),
        }
        if step.others:
            told["groups"] = len(step.groups)
        return told

    def _library_call(self, step: Extern) -> dict[str, Any]:
        which = differentiated(step.target)
        target = step.target if which is None else which.target
        views = [view for view in step.views() if view.buffer]
        buffers = self.one.plan.buffers
        n_bytes = sum(self._bytes(view.shape, buffers[view.buffer].dtype.itemsize) for view in views)
        n_bytes += sum(
            self._bytes(buffers[name].shape, buffers[name].dtype.itemsize) for name in step.outputs if name
        )
        told: dict[str, Any] = {
            "call": f"{target.namespace}.{target.overloadpacket.__name__}",
            "reads": self._all(view.buffer for view in views),
            "writes": self._all([*step.outputs, *step.mutates]),
            "bytes": n_bytes,
            # A view that the call reads through costs nothing, and is its.
            "quotes": self._quotes([step.origin, *(call.origin for view in views for call in view.calls)]),
        }
        if step.reason:
            told["reason"] = step.reason
        return told

    def _quotes(self, origins: Iterable[str]) -> list[str]:
        return _quotes(origins, self.one)[:MOST_QUOTES]

    def _refusals(self) -> list[dict[str, str]]:
        """Why two launches are not one: once for each pair of them and reason, each by what it writes first.

        Fusion speaks of nests that may be one launch by now, or one group of many in a launch over lists.
        """
        owner = dict(self._owners())
        refusals: dict[tuple[str, str, str], dict[str, str]] = {}
        for refusal in self.one.plan.refusals:
            first, second = owner.get(refusal.producer), owner.get(refusal.consumer)
            if first is None or second is None or first == second:
                continue
            reason = re.sub(r"[A-Za-z_]\w*", lambda match: self.ids.get(match[0], match[0]), refusal.reason)
            told = {"first": first, "second": second, "verdict": refusal.verdict.value, "reason": reason}
            refusals.setdefault((first, second, reason), told)
        return list(refusals.values())

    def _owners(self) -> Iterator[tuple[str, str]]:
        """For what a launch writes and for the nodes that it computes: what it writes first, in the first run."""
        for step in self.one.names.steps:
            repeat = step.repeat if isinstance(step, Loop | FirstCall | LayerCall) else None
            pattern = step.pattern if isinstance(step, Loop) else 0
            runs = repeat.runs if repeat is not None else (plain_steps(step),)
            for same in zip(*runs, strict=False):
                its = same[pattern]
                if not isinstance(its, Launch):
                    continue
                name = next(iter(self._written(its)), "")
                for launch in same:
                    if name in self.ids and isinstance(launch, Launch):
                        written = (*self._written(launch), *(b for one in launch.others for b in one.buffers))
                        yield from ((other, self.ids[name]) for other in (*launch.origins, *written))

    def _written(self, step: Launch) -> list[str]:
        kernel = self.one.plan.kernels[step.kernel]
        pointers = [pointer for pointer in kernel.pointers if not pointer.scratch]
        passed = zip(pointers, step.buffers, strict=True)
        return [name for pointer, name in passed if pointer.access is not Access.READ]

    def _bytes(self, shape: Iterable[Size], itemsize: int) -> int:
        return math.prod(map(self._number, shape)) * itemsize

    def _number(self, size: Size) -> int:
        """A size, with the values that symbols had at capture."""
        return size if isinstance(size, int) else int(size.subs(self.sizes))


def _quotes(origins: Iterable[str], one: NamedPlan) -> list[str]:
    """The statements that nodes came from, as `quotes` of the lock has them."""
    places = [one.words.provenance(origin) for origin in origins if origin]
    return list(
        dict.fromkeys(f"{where.qualname}    {where.statement}" for where in places if where.statement)
    )


def _values(kernel: KernelPlan, names: KernelNames, one: NamedPlan) -> dict[str, list[str]]:
    """By a word of the kernel's file: the statements that the line which makes this value, or stores it, came from."""
    statements: dict[str, list[str]] = {}
    for position, value in enumerate(kernel.body):
        if isinstance(value, Store):
            word = names.pointers.get(value.buffer, "")
        else:
            word = names.values.get(position, "")
            if not word and isinstance(value, Load):
                continue
        if word:
            quotes = _quotes(_origins(kernel, names, position), one)
            statements[word] = list(dict.fromkeys([*statements.get(word, ()), *quotes]))[:MOST_QUOTES]
    # Of a kernel that does one statement alone every line is that statement's.
    is_one = len({quote for quotes in statements.values() for quote in quotes}) < 2
    return {} if is_one else {word: quotes for word, quotes in statements.items() if quotes}


def _origins(kernel: KernelPlan, names: KernelNames, position: int) -> Iterator[str]:
    """The nodes of a value, and of what its line computes on the way: what has no line of its own."""
    waiting, seen = [position], set[int]()
    named: Mapping[int, str] = names.values
    while waiting:
        at = waiting.pop()
        if at in seen or (at != position and at in named):
            continue
        seen.add(at)
        value = kernel.body[at]
        if getattr(value, "origin", "") and not isinstance(value, Load):
            yield value.origin
        waiting += arguments(value)
