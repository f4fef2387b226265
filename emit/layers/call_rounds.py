"""Calls of one function for one module of a list after the other, as a loop over the list.

for layer, stride in zip(range(1, 12), (2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2), strict=True):
    hidden_states = conv_layer(self.conv_layers[layer], hidden_states, stride=stride)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence

from longhand.emit.module.paragraphs import Paragraph, PythonLine

_FEWEST = 3


@dataclasses.dataclass(frozen=True)
class CallOfMany:
    """A call that may be one of several in a loop.

    Attributes:
        function: What is called.
        owner: The path of the list that holds the module.
        position: The module's place in it.
        tensors: What else it is given.
        numbers: (parameter, what it is given for it).
        targets: What its results are called.
    """

    function: str
    owner: str
    position: int
    tensors: tuple[str, ...]
    numbers: tuple[tuple[str, str], ...]
    targets: tuple[str, ...]


class CallLine(PythonLine):
    """The line of such a call."""

    __slots__ = ("call",)
    call: CallOfMany


def call_of(line: str) -> CallOfMany | None:
    """The call that a line is, if it may be one of several."""
    return getattr(line, "call", None) if isinstance(line, CallLine) else None


def in_rounds(
    paragraphs: Sequence[Paragraph],
    reach: Callable[[str], str],
    n_held: Callable[[str], int],
    variables: Collection[str],
) -> list[Paragraph]:
    """The paragraphs, with calls one after the other as loops.

    Args:
        paragraphs: Of one function.
        reach: How the module of a path is reached.
        n_held: How many modules the list of a path holds.
        variables: The function's: a loop would bind the number of that name in place of one.
    """
    found: list[Paragraph] = []
    place = 0
    while place < len(paragraphs):
        calls = _run_from(paragraphs, place)
        is_whole = bool(calls) and len(calls) == n_held(calls[0].owner)
        is_free = all(word not in variables for word in _differing(calls))
        if is_free and len(calls) >= (2 if is_whole else _FEWEST):
            found.append(Paragraph((), _loop(calls, reach(calls[0].owner), is_whole)))
            place += len(calls)
        else:
            found.append(paragraphs[place])
            place += 1
    return found


def _run_from(paragraphs: Sequence[Paragraph], start: int) -> list[CallOfMany]:
    """The calls from a paragraph on that are one in a loop."""
    calls: list[CallOfMany] = []
    for paragraph in paragraphs[start:]:
        call = call_of(paragraph.lines[0]) if len(paragraph.lines) == 1 and not paragraph.quotes else None
        if call is None or (calls and not _follows(calls, call)):
            break
        calls.append(call)
        if calls[0].targets != call.targets:  # the last one hands on what it makes under another name
            break
    return calls


def _follows(before: Sequence[CallOfMany], call: CallOfMany) -> bool:
    last = before[-1]
    is_next = (call.function, call.owner, call.position) == (last.function, last.owner, last.position + 1)
    same = len(call.targets) == len(last.targets) and [w for w, _ in call.numbers] == [
        w for w, _ in last.numbers
    ]
    if not is_next or not same or len(call.tensors) != len(last.tensors):
        return False
    pairs = zip(call.tensors, last.tensors, strict=True)
    if len(before) > 1:
        return call.tensors == last.tensors
    # What the first call is given is bound to the variable that the others read, before the loop.
    return all(one == other or one in last.targets for one, other in pairs)


def _loop(calls: Sequence[CallOfMany], owner: str, is_whole: bool) -> list[str]:
    first, second = calls[0], calls[1]
    lines: list[str] = [
        PythonLine.assignment(word, given)
        for word, given in zip(second.tensors, first.tensors, strict=True)
        if word != given
    ]
    differing = _differing(calls)
    target, source = ("block", owner) if is_whole else ("layer", _places(calls))
    heads = [target, *differing]
    lists = [source, *(f"({', '.join(values)})" for values in differing.values())]
    over = f"zip({', '.join(lists)}, strict=True)" if differing else source
    module = "block" if is_whole else f"{owner}[layer]"
    numbers = [f"{word}={word if word in differing else value}" for word, value in first.numbers]
    value = f"{first.function}({', '.join([module, *second.tensors, *numbers])})"
    body = PythonLine.assignment(", ".join(first.targets), value).indented()
    renamed = [
        PythonLine.assignment(word, made)
        for word, made in zip(calls[-1].targets, first.targets, strict=True)
        if word != made
    ]
    return [*lines, f"for {', '.join(heads)} in {over}:", body, *renamed]


def _differing(calls: Sequence[CallOfMany]) -> dict[str, tuple[str, ...]]:
    """The numbers that are not the same in all calls, by parameter."""
    columns = (
        {word: tuple(dict(call.numbers)[word] for call in calls) for word, _ in calls[0].numbers}
        if calls
        else {}
    )
    return {word: values for word, values in columns.items() if len(set(values)) > 1}


def _places(calls: Sequence[CallOfMany]) -> str:
    begin, end = calls[0].position, calls[-1].position + 1
    return f"range({begin}, {end})" if begin else f"range({end})"
