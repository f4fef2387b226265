"""Layers of several kinds in turn: a call for each, and a loop over the rounds where calls repeat.

for layer in range(0, 8, 2):
    x = self.layers[layer](x, window)
    x = self.layers[layer + 1](x)
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence

from longhand.emit.layers.layer_methods import Method
from longhand.emit.layers.model_loops import LayerClass
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.module_tree import expression, member, module_expression
from longhand.emit.module.paragraphs import PythonLine
from longhand.emit.text.expression import number
from longhand.schedule.named_plan import (
    SAVED,
    Branch,
    LayerCall,
    Loop,
)

LayerText = Callable[[int], str]  # for the place of the layer so many after the one that is called


@dataclasses.dataclass(frozen=True)
class CallText:
    """The statements of one layer's call.

    Attributes:
        position: Of the layer in its list.
        write: Makes them, the call first, given the texts for the places of layers.
        before: Lines that the first call of this kind needs before it: ``saved_layers = []``.
    """

    position: int
    write: Callable[[LayerText], tuple[str, ...]]
    before: tuple[str, ...] = ()

    @property
    def asks_for_layer(self) -> bool:
        """Whether the place of a layer stands in them."""
        asked: list[int] = []

        def note(distance: int) -> str:
            asked.append(distance)
            return ""

        self.write(note)
        return bool(asked)

    @property
    def as_any(self) -> tuple[str, ...]:
        """The same for all layers that are called alike."""
        return self.write("layer {:+}".format)


def write_layer_call(call: LayerCall, block: LayerClass, tree: Branch, outer: BodyWriter) -> CallText:
    """``x, residual = self.layers[3](x, residual, cos, sin)``

    Args:
        call: The call.
        block: The class of the layers of its kind.
        tree: The root of the modules.
        outer: The writer of the function around it.
    """
    loop, repeat, variables = call.loop, call.repeat, outer.variables
    owner = member(module_expression(tree, loop.owner)) if loop.owner else "self"
    handed_on = [variables[buffer] for buffer in repeat.inputs[0]]
    before = tree.at(f"{loop.owner}.{call.position - 1}") if loop.previous else tree
    previous = [expression(before, path) for path in loop.previous.values()]
    given = [variables[buffer] for buffer in loop.shared]
    given += map(outer.sizes.word_of, block.methods[0].needed)
    given += [number(values[call.number]) for values in block.numbers.values]
    targets = [variables[buffer] for buffer in repeat.outputs[0]]
    record = loop.record
    kept = [f"{record.word}.append({SAVED})"] if record is not None else []

    def write(layer: LayerText) -> tuple[str, ...]:
        weights = [member(weight, f"{owner}[{layer(-1)}]") for weight in previous]
        value = f"{owner}[{layer(0)}]({', '.join([*handed_on, *weights, *given])})"
        return (PythonLine.assignment(", ".join([*targets, *([SAVED] if record else [])]), value), *kept)

    first = (f"{record.word} = []",) if record is not None and not loop.n_head and not call.number else ()
    return CallText(call.position, write, first)


def write_rounds(calls: Sequence[CallText]) -> list[str]:
    """The calls in order, those that repeat as a loop."""
    lines = [line for call in calls for line in dict.fromkeys(call.before)]
    lines = list(dict.fromkeys(lines))
    begin = 0
    while begin < len(calls):
        length, period = _longest(calls, begin)
        if length == period:
            lines += calls[begin].write(_numbered(calls[begin].position))
            begin += 1
            continue
        step = calls[begin + 1].position - calls[begin].position
        lowest = min(call.position for call in calls[begin : begin + period])
        low = min(call.position for call in calls[begin : begin + length])
        rounds = f"range({low}, {low + length}, {period})" if period > 1 else f"range({low}, {low + length})"
        one_round = calls[begin : begin + period]
        body = [line for call in one_round for line in call.write(_within(call.position - lowest))]
        is_read = any(call.asks_for_layer for call in one_round)
        head = f"for layer in {rounds if step > 0 else f'reversed({rounds})'}:"
        lines.append(head if is_read else f"for _ in range({length // period}):")
        lines += [f"    {line}" for line in body]
        begin += length
    return lines


def _longest(calls: Sequence[CallText], begin: int) -> tuple[int, int]:
    """(how many calls from `begin` on are rounds, how many calls a round has); a single call is none."""
    best = (1, 1)
    for period in range(1, (len(calls) - begin) // 2 + 1):
        end = begin + period
        while end < len(calls) and calls[end].as_any == calls[end - period].as_any:
            end += 1
        length = (end - begin) // period * period
        if length >= 2 * period and length > best[0] and _are_in_order(calls[begin : begin + length]):
            best = (length, period)
    return best


def _are_in_order(calls: Sequence[CallText]) -> bool:
    steps = {other.position - one.position for one, other in itertools.pairwise(calls)}
    return steps in ({1}, {-1})


def _numbered(position: int) -> LayerText:
    """Places as numbers."""
    return lambda distance: str(position + distance)


def _within(distance: int) -> LayerText:
    """Places inside a loop over rounds, for the layer that comes so many after the round's first one."""

    def text(further: int) -> str:
        total = distance + further
        return f"layer {'+' if total > 0 else '-'} {abs(total)}" if total else "layer"

    return text


def as_variants(blocks: Sequence[tuple[Loop, LayerClass]]) -> list[tuple[Loop, LayerClass]]:
    """The classes of layers, of a second kind in one list told as what differs from the first.

    A class that holds what an earlier one does is made from that; what the user wrote is quoted where it stands first.
    """
    found: list[tuple[Loop, LayerClass]] = []
    for loop, block in blocks:
        first = next((other for one, other in found if _is_like(loop, block, one, other)), None)
        if first is not None:
            methods = tuple(
                _without_quotes(method, first)
                for method in block.methods
                if not any(_is_inherited(method, one) for one in first.methods)
            )
            block = dataclasses.replace(block, base=first.name, methods=methods, is_variant=True)
        found.append((loop, block))
    return found


def _is_like(loop: Loop, block: LayerClass, other: Loop, first: LayerClass) -> bool:
    """Whether a class may be told as another one with other functions."""
    held = [
        (one.base, one.base_arguments, one.members, one.position, one.keeps_position)
        for one in (block, first)
    ]
    are_two = block.name != first.name and not first.is_variant
    return loop.is_in_turn and are_two and loop.owner == other.owner and held[0] == held[1]


def _is_inherited(method: Method, other: Method) -> bool:
    return method.name == other.name and method.does_what(other) and method.bound == other.bound


def _without_quotes(method: Method, first: LayerClass) -> Method:
    """The function without quotes of what an earlier one quotes."""
    said = {quotes for one in first.methods for quotes, _ in one.paragraphs}
    paragraphs = tuple((() if quotes in said else quotes, lines) for quotes, lines in method.paragraphs)
    return dataclasses.replace(method, paragraphs=paragraphs)
