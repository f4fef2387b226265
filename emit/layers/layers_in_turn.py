"""Layers of several kinds in turn: a call for each, and a loop over the rounds where calls repeat.

for layer in range(0, 8, 2):
    x = self.layers[layer](x, window)
    x = self.layers[layer + 1](x)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from longhand.emit.layers.following_modules import modules_that_follow
from longhand.emit.layers.layer_methods import Method
from longhand.emit.layers.model_loops import LayerClass, entry_of_layer
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.module_tree import expression, member, module_expression
from longhand.emit.text.expression import number
from longhand.lower.ir import View
from longhand.schedule.named_plan import (
    SAVED,
    Branch,
    LayerCall,
    Loop,
    ModelStep,
    TurnCall,
    find_rounds,
    inherited,
    list_holding,
    plain_steps,
)
from longhand.schedule.plan import UnitPlan, buffers_read

LayerText = Callable[[int], str]  # for the place of the layer so many after the one that is called


@dataclasses.dataclass(frozen=True)
class CallText:
    """The statements of one layer's call.

    Attributes:
        call: What is called, with what.
        write: Makes them, the call first, given the texts for the places of layers.
        before: Lines that the first call of this kind needs before it: ``saved_layers = []``.
        write_alone: Makes them where the call is in no loop, without names for what nothing reads behind it.
    """

    call: TurnCall
    write: Callable[[LayerText], tuple[str, ...]]
    before: tuple[str, ...] = ()
    write_alone: Callable[[LayerText], tuple[str, ...]] | None = None


def write_layer_call(
    call: LayerCall, block: LayerClass, tree: Branch, outer: BodyWriter, steps: Sequence[ModelStep]
) -> CallText:
    """``x, residual = self.layers[3](x, residual, cos, sin)``

    Args:
        call: The call.
        block: The class of the layers of its kind.
        tree: The root of the modules.
        outer: The writer of the function around it.
        steps: Of that.
    """
    loop, repeat, variables = call.loop, call.repeat, outer.variables
    owner = member(module_expression(tree, loop.owner)) if loop.owner else "self"
    handed_on = [variables[buffer] for buffer in repeat.inputs[0]]
    before = tree.at(f"{loop.owner}.{call.position - 1}") if loop.previous else tree
    previous = [expression(before, path) for path in loop.previous.values()]
    behind = modules_that_follow(loop, tree, outer)
    lists = [list_holding(variables[name]) for name in loop.listed]
    given = [variables[buffer] for buffer in loop.shared]
    given += map(outer.sizes.word_of, block.methods[0].needed)
    given += [number(values[call.number]) for values in block.numbers.values]
    targets = [variables[buffer] for buffer in repeat.outputs[0]]
    record = loop.record
    kept = [f"{record.word}.append({SAVED})"] if record is not None else []

    unread = unread_behind(call, steps, outer.plan)
    alone = ["_" if name in unread else variables[name] for name in repeat.outputs[0]]

    def bound(layer: LayerText, names: Sequence[str]) -> tuple[str, ...]:
        weights = [str(member(weight, f"{owner}[{layer(-1)}]")) for weight in previous]
        weights += behind.weights(f"{behind.word}s[{layer(1)}]") if behind is not None else []
        entries = [
            entry_of_layer(variables[name], one, layer(one.distance)) for name, one in loop.listed.items()
        ]
        value = f"{owner}[{layer(0)}]({', '.join([*handed_on, *weights, *entries, *given])})"
        return (f"{', '.join([*names, *([SAVED] if record else [])])} = {value}", *kept)

    first = (f"{record.word} = []",) if record is not None and not loop.n_head and not call.number else ()
    first = (*first, behind.made) if behind is not None else first
    says = (
        owner,
        *targets,
        "=",
        *handed_on,
        *previous,
        behind is not None,
        *lists,
        *given,
        record.word if record is not None else "",
    )
    turn = TurnCall(call.position, says)
    return CallText(turn, lambda layer: bound(layer, targets), first, lambda layer: bound(layer, alone))


def unread_behind(call: LayerCall, steps: Sequence[ModelStep], plan: UnitPlan) -> set[str]:
    """What a layer's call hands on and nothing reads behind it, though it reads that of other layers.

    Args:
        call: One of the steps.
        steps: Of the function around it.
        plan: The unit's.
    """
    place = next(n for n, step in enumerate(steps) if step is call)
    results = {result.buffer for result in plan.results if isinstance(result, View)}
    later = (plain for step in steps[place + 1 :] for plain in plain_steps(step))
    return {*call.repeat.outputs[0]} - results.union(*(buffers_read(plain) for plain in later))


def write_rounds(calls: Sequence[CallText]) -> list[str]:
    """The calls in order, those that repeat as a loop."""
    lines = list(dict.fromkeys(line for call in calls for line in call.before))
    for rounds in find_rounds([one.call for one in calls]):
        first = calls[rounds.start]
        if not rounds.is_loop:
            lines += (first.write_alone or first.write)(_numbered(first.call.position))
            continue
        low, end, period = rounds.positions.start, rounds.positions.stop, rounds.period
        places = f"range({low}, {end}, {period})" if period > 1 else f"range({low}, {end})"
        one_round = calls[rounds.start : rounds.start + period]
        body = [line for one in one_round for line in one.write(_within(one.call.position - rounds.lowest))]
        head = f"for layer in {f'reversed({places})' if rounds.is_reversed else places}:"
        lines.append(head if rounds.names_layer else f"for _ in range({rounds.n_calls // period}):")
        lines += [f"    {line}" for line in body]
    return lines


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
    variants: list[tuple[Loop, LayerClass]] = []
    for loop, block in blocks:
        first = next((other for one, other in variants if _is_like(loop, block, one, other)), None)
        if first is not None:
            kept = inherited(block.methods, first.methods)
            methods = tuple(_without_quotes(one, first) for one in block.methods if one.name not in kept)
            block = dataclasses.replace(block, base=first.name, methods=methods, is_variant=True)
        variants.append((loop, block))
    return variants


def _is_like(loop: Loop, block: LayerClass, other: Loop, first: LayerClass) -> bool:
    """Whether a class may be told as another one with other functions."""
    held = [
        (one.base, one.base_arguments, one.members, one.position, one.keeps_position)
        for one in (block, first)
    ]
    are_two = block.name != first.name and not first.is_variant
    return loop.is_in_turn and are_two and loop.owner == other.owner and held[0] == held[1]


def _without_quotes(method: Method, first: LayerClass) -> Method:
    """The function without quotes of what an earlier one quotes."""
    said = {one.quotes for block in first.methods for one in block.paragraphs}
    paragraphs = tuple(
        dataclasses.replace(one, quotes=()) if one.quotes in said else one for one in method.paragraphs
    )
    return dataclasses.replace(method, paragraphs=paragraphs)
