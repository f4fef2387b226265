"""Calls of one function for one module of a list after the other, as a loop over the list.

for layer, stride in zip(range(1, 12), (2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2), strict=True):
    hidden_states = conv_layer(self.conv_layers[layer], hidden_states, stride=stride)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from longhand.emit.module.module_place import ModulePlace
from longhand.emit.module.paragraphs import Paragraph, PythonLine
from longhand.emit.text.python_code import (
    CallCode,
    Code,
    KeywordCode,
    LiteralCode,
    MethodCode,
    NameCode,
    NamedArgumentsCode,
    PythonStatement,
    SeveralCode,
    dimension,
    names,
    whole_number,
)
from longhand.schedule.named_plan import CallLoop, CallOfMany, Number, SharedCall, find_call_loops


def popped(call: SharedCall) -> list[Code]:
    """What a call is given of what the forward pass kept for each of its kind, by name."""
    taken = MethodCode(NameCode(call.taken_from), "pop", ())
    return [NamedArgumentsCode(taken)] if call.taken_from else []


def call_of_many(
    call: SharedCall,
    whose: ModulePlace | None,
    tensors: tuple[str, ...],
    targets: tuple[str, ...],
    is_handed_on: bool,
) -> CallOfMany | None:
    """A call as one of those for each module of a list; None if its module stands in none, or it makes a record."""
    owner, _, position = call.path.rpartition(".")
    if (
        call.record is not None
        or not position.isdigit()
        or not owner
        or whose is None
        or not whose.n_listed(owner)
    ):
        return None
    return CallOfMany(
        call.name, owner, int(position), tensors, call.numbers, targets, call.channels, is_handed_on
    )


def as_loops(
    paragraphs: Sequence[Paragraph],
    reach: Callable[[str], str],
    n_held: Callable[[str], int],
    variables: Sequence[str],
    written: Callable[[Number], Code],
) -> list[Paragraph]:
    """The paragraphs, with calls one after the other as loops.

    Args:
        paragraphs: Of one function.
        reach: How the module of a path is reached.
        n_held: How many modules the list of a path holds.
        variables: The function's.
        written: How a number is written.
    """
    calls = [one.call if one.is_bare else None for one in paragraphs]
    loops = find_call_loops(calls, n_held, variables)
    with_loops: list[Paragraph] = []
    done = 0
    for place, paragraph in enumerate(paragraphs):
        loop = loops.get(place)
        if loop is not None:
            with_loops.append(Paragraph((), _lines(loop, reach(loop.calls[0].owner), written)))
            done = place + len(loop.calls)
        elif place >= done:
            with_loops.append(paragraph)
    return with_loops


def _lines(loop: CallLoop, owner: str, written: Callable[[Number], Code]) -> list[str]:
    first, second, last = loop.calls[0], loop.calls[1], loop.calls[-1]
    lines: list[str] = [
        PythonLine.binding([word], NameCode(given))
        for word, given in zip(second.tensors, first.tensors, strict=True)
        if word != given
    ]
    source = NameCode(owner) if loop.is_whole else _places(loop.calls)
    heads = ("block" if loop.is_whole else "layer", *loop.differing)
    lists = [source, *(SeveralCode(tuple(map(written, values))) for values in loop.differing.values())]
    strict = KeywordCode("strict", LiteralCode("True"))
    over = CallCode("zip", (*lists, strict)) if loop.differing else source
    module = "block" if loop.is_whole else f"{owner}[layer]"
    numbers = [
        KeywordCode(word, NameCode(word) if word in loop.differing else written(value))
        for word, value in first.numbers
        if word not in first.channels
    ]
    numbers += [
        KeywordCode(word, dimension(second.tensors[place], 1)) for word, place in first.channels.items()
    ]
    value = CallCode(first.function, (*names([module, *second.tensors]), *numbers))
    body = PythonLine.binding(first.targets, value).indented()
    renamed = [
        PythonLine.binding([word], NameCode(made))
        for word, made in zip(last.targets, first.targets, strict=True)
        if word != made
    ]
    return [*lines, PythonLine.of(PythonStatement(heads, over, word="for")), body, *renamed]


def _places(calls: Sequence[CallOfMany]) -> Code:
    begin, end = calls[0].position, calls[-1].position + 1
    return CallCode("range", tuple(map(whole_number, (begin, end) if begin else (end,))))
