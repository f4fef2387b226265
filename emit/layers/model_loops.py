"""Repeated blocks in model.py: one class with a forward(), and the loop that calls it for each layer.

A sum that one layer leaves to the next is told there: its first kernel reads both summands anyway.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from longhand.emit.layers.call_records import reached_in_records
from longhand.emit.layers.carried import begin_carried
from longhand.emit.layers.class_names import TakenNames, free_name
from longhand.emit.layers.following_modules import modules_that_follow
from longhand.emit.layers.function_bodies import layer_variables
from longhand.emit.layers.function_remarks import parts_done, remark_on_deferred_residual, with_overwritten
from longhand.emit.layers.layer_methods import (
    Method,
    device_inside,
    own_releases,
    sizes_inside,
    write_method,
)
from longhand.emit.layers.layer_numbers import NO_NUMBERS, LayerNumbers, name_numbers
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.model_weights import construct_block
from longhand.emit.module.module_place import ModulePlace
from longhand.emit.module.module_tree import ModuleTree, expression, member, module_expression
from longhand.emit.module.paragraphs import Paragraph, PythonLine
from longhand.emit.text.python_code import CallCode, Code, KeywordCode, NameCode, names
from longhand.emit.text.quoting import python_docstring
from longhand.emit.text.sizes import with_words_of_others
from longhand.schedule.named_plan import (
    SAVED,
    Branch,
    FirstCall,
    Home,
    ListedInput,
    Loop,
    ModelStep,
    Reached,
    SavedLayers,
    layers_called,
    list_holding,
    records_apart,
    statements_of_some,
    steps_of,
)
from longhand.schedule.names.words import listed, own_name
from longhand.schedule.plan import buffers_made, buffers_read

_FOLLOWING = "Ends with the next layer's {}; the last one with {}."
_ONLY_SAVED = "Only the backward pass reads {}."


@dataclasses.dataclass(frozen=True)
class LayerClass:
    """The class of a repeated block.

    Attributes:
        name: The class.
        owner: The path of the list that holds its instances.
        base: Its base class.
        base_arguments: What the base's constructor is given.
        members: Lines of ``__init__``.
        methods: forward() and, where the run before the loop shares its end, a second one.
        runtime_names: What it imports from runtime.py.
        position: The word for its place in the list, if its constructor takes that: ``layer``.
        keeps_position: Whether its methods ask for it, too.
        uses_nn: Whether its base or ``__init__`` name something of torch.nn.
        is_variant: Whether it holds what its base holds, the class of another kind of layer of the same list.
        parameters: What its constructor is given of the sizes that differ between lists.
        attributes: Lines that keep some of them for its methods.
        arguments: By the path of the first layer of a loop: what its layers' constructor is given.
        is_part: In a backward pass: whether its layers have weights whose gradients others make.
    """

    name: str
    owner: str
    base: str
    base_arguments: str
    members: tuple[str, ...]
    methods: tuple[Method, ...]
    runtime_names: frozenset[str]
    position: str = ""
    keeps_position: bool = False
    numbers: LayerNumbers = NO_NUMBERS
    uses_nn: bool = False
    is_variant: bool = False
    parameters: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_part: bool = False


def write_block(loop: Loop, outer: BodyWriter, tree: ModuleTree, taken: TakenNames) -> LayerClass:
    """The class that all layers of a loop share, written from the first one.

    Args:
        loop: The loop.
        outer: The writer of the function around it; learns what the block needs imported.
        tree: The modules.
        taken: The classes that are there already.
    """
    first = f"{loop.owner}.{loop.positions[0]}"
    branch = tree.root.at(first)
    variables = layer_variables(loop, outer, tree)
    saved = None
    if loop.record is not None:
        variables |= reached_in_records(outer.calls, loop.repeat.paths[loop.pattern])
        saved = write_record(loop.record, [variables[buffer] for buffer in loop.saved])
    deferred = remark_on_deferred_residual(loop, outer.words, variables)
    if loop.is_apart:
        deferred = parts_done(loop, branch)
    if loop.following is not None:
        deferred = _FOLLOWING.format(loop.following.path, loop.following.last)
    read = {name for step in loop.run for name in buffers_read(step)}
    only_saved = [variables[buffer] for buffer in loop.inputs if buffer not in read]
    if only_saved:
        deferred = " ".join(filter(None, [deferred, _ONLY_SAVED.format(listed(only_saved))]))
    word = _position_word(branch) if loop.alternatives or branch.varies_by_layer else ""
    numbers = name_numbers(loop, outer.plan, outer.names, {*variables.values(), *outer.variables.values()})
    parts = _parts(loop, {*branch.branches, *branch.held}, variables, deferred)
    whose = ModulePlace(tree.root, loop.repeat.paths[loop.pattern])
    inside = copy.copy(outer)
    inside.sizes = with_words_of_others(outer.sizes, outer.names.of_layers(loop).twins)
    inside.of_some = statements_of_some(loop.repeat.runs, loop.pattern, outer.words)
    methods = _write_parts(parts, loop, inside, variables, word, saved, numbers, whose)
    made = construct_block(tree, first, word)
    name = free_name(own_name(loop.class_name), taken, loop.owner, is_in_turn=loop.is_in_turn)
    return LayerClass(
        name,
        python_docstring(_served(loop, len(tree.root.at(loop.owner).branches))),
        made.base,
        made.base_arguments,
        tuple(made.members),
        tuple(methods),
        frozenset(made.runtime_names),
        word,
        bool(loop.alternatives),
        numbers,
        made.uses_nn,
    )


def _served(loop: Loop, n_layers: int) -> str:
    """``blocks``; ``blocks[4], [6] and [8]``, or ``blocks[1] to [11]``, where others of the list do something else."""
    places = sorted(layers_called(loop))
    if len(places) == n_layers:
        return loop.owner
    if len(places) > 2 and places[-1] - places[0] == len(places) - 1:
        return f"{loop.owner}[{places[0]}] to [{places[-1]}]"
    return f"{loop.owner}{listed(f'[{place}]' for place in places)}"


def _write_parts(
    parts: Sequence[LayerPart],
    loop: Loop,
    outer: BodyWriter,
    variables: dict[str, str],
    word: str,
    saved: Code | None,
    numbers: LayerNumbers,
    whose: ModulePlace,
) -> list[Method]:
    """The functions of a layer, from the last on: each but that one ends with a call of the next."""
    methods: list[Method] = []
    for part in reversed(parts):
        sizes = sizes_inside(part.inputs, outer, variables)
        device = device_inside((*part.inputs, *loop.own_weights), outer, variables)
        steps = steps_of(loop, part.start, part.stop)
        returned: list[Code] = [NameCode(variables[buffer]) for buffer in part.outputs]
        last: PythonLine | None = None
        kept = saved
        if part.following is not None:
            later = [variables[buffer] for buffer in part.following.outputs]
            given = [variables[buffer] for buffer in part.following.inputs]
            needed = map(sizes.word_of, methods[0].needed)
            call = CallCode(f"self.{part.following.name}", names([*given, *needed]))
            kept = None
            more = [SAVED] if saved is not None else []
            if list(names(later)) == returned:
                returned = [call]
            else:
                last = PythonLine.binding([*later, *more], call)
                returned += names(more)
        method = write_method(
            part.name,
            part.remark,
            part.inputs,
            own_releases(steps) if part.start else steps,
            returned,
            outer,
            variables,
            device,
            word,
            kept,
            sizes=sizes,
            numbers=numbers if len(parts) == 1 else NO_NUMBERS,
            last=last,
            whose=whose,
            home=Home(whose.root, loop.owner, is_list=True),
        )
        told = with_overwritten([method.remark], method.overwritten)
        methods.insert(0, dataclasses.replace(method, remark=told))
    return methods


@dataclasses.dataclass(frozen=True)
class LayerPart:
    """One of the functions that a layer's steps are, each but the last of which calls the next.

    Attributes:
        name: ``forward``, ``after_ln_1``.
        remark: What its docstring says, or empty.
        inputs: The buffers that it takes.
        outputs: Those of the layer's outputs that are made in it or later.
        start: Its first step.
        stop: The one after its last; None: the layer's last.
        following: The next one.
    """

    name: str
    remark: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    start: int = 0
    stop: int | None = None
    following: LayerPart | None = None


def _parts(loop: Loop, held: set[str], variables: Mapping[str, str], remark: str) -> list[LayerPart]:
    """The functions of a layer: two where the run before the loop, or another kind of layers, calls its end."""
    parts: list[LayerPart] = []
    taken = {*held}
    if loop.tail is not None:
        tail = loop.tail
        newest = _newest(loop, tail.start, tail.inputs, variables)
        told = "What follows it, in both kinds of layers."
        parts.append(LayerPart(_after(newest, taken), told, tail.inputs, tail.outputs, tail.start))
        taken.add(parts[0].name)
    if loop.n_head:
        newest = _newest(loop, loop.n_head, loop.rest_inputs, variables)
        told = f"What follows {newest}. The first block starts here: its {newest} is made before the loop."
        name = _after(newest, taken)
        stop, following = (parts[0].start, parts[0]) if parts else (None, None)
        parts.insert(
            0, LayerPart(name, told, loop.rest_inputs, loop.rest_outputs, loop.n_head, stop, following)
        )
    stop, following = (parts[0].start, parts[0]) if parts else (None, None)
    behind = loop.following.weights if loop.following is not None else ()
    inputs = (*loop.inputs, *loop.previous, *behind, *loop.listed, *loop.shared)
    return [LayerPart("forward", remark, inputs, loop.outputs, 0, stop, following), *parts]


def _after(newest: str, taken: set[str]) -> str:
    name = f"after_{newest}"
    while name in taken:
        name += "_"
    return name


def _newest(loop: Loop, start: int, given: Sequence[str], variables: Mapping[str, str]) -> str:
    """The word for what the steps before some shared ones make last and hand over."""
    made = [buffer for step in loop.run[:start] for buffer in buffers_made(step)]
    return variables[next((buffer for buffer in reversed(made) if buffer in given), given[-1])]


def _position_word(branch: Branch) -> str:
    """A word for a block's place in its list that is not the name of anything it holds."""
    words = ("layer", "position", "place_in_list")
    held = {*branch.branches, *branch.held}
    numbered = (f"{words[0]}_{n}" for n in itertools.count())
    return next(word for word in itertools.chain(words, numbered) if word not in held)


def write_first_call(
    call: FirstCall, loop: Loop, block: LayerClass, tree: Branch, outer: BodyWriter
) -> list[str]:
    """``x, mlp = self.blocks[0].after_ln_1(x, ln_1)``"""
    targets = ", ".join(
        [
            *(outer.variables[buffer] for buffer in call.repeat.outputs[0]),
            *([SAVED] if loop.record is not None else []),
        ]
    )
    needed = map(outer.sizes.word_of, block.methods[1].needed)
    given = ", ".join([*(outer.variables[buffer] for buffer in call.repeat.inputs[0]), *needed])
    owner = member(module_expression(tree, loop.owner)) if loop.owner else "self"
    value = f"{owner}[{call.position}].{block.methods[1].name}({given})"
    lines = [f"{targets} = {value}"]
    return [*lines, f"{loop.record.word} = [{SAVED}]"] if loop.record is not None else lines


def write_record(record: SavedLayers, values: Sequence[str]) -> Code:
    """``BlockSaved(widen=widen, widen_weight=self.mlp.widen.weight)``"""
    given = (KeywordCode(record.fields[place], NameCode(values[place])) for place in record.made)
    return CallCode(record.class_name, tuple(given))


def write_loop(loop: Loop, block: LayerClass, tree: Branch, outer: BodyWriter) -> list[str]:
    """The loop: ``for block in self.h:`` and the call.

    Args:
        loop: The loop.
        block: Its class.
        tree: The root of the modules.
        outer: The writer of the function around it.
    """
    variables = outer.variables
    first, last = loop.repeat.inputs[0], loop.repeat.outputs[-1]
    lists = {place: list_holding(variables[last[place]]) for place in loop.collected}
    singular = outer.names.of_layers(loop).of_one
    carried = [singular.get(source) or variables[last[source]] for source in loop.carried]
    lines = begin_carried([(variable, variables[first[place]]) for place, variable in enumerate(carried)])
    lines += [f"{name} = []" for name in lists.values()]
    record = loop.record
    if record is not None and not loop.n_head:
        lines.append(f"{record.word} = []")
    branch = tree.at(loop.owner)
    owner = member(module_expression(tree, loop.owner)) if loop.owner else "self"
    before = tree.at(f"{loop.owner}.{loop.positions[0] - 1}") if loop.previous else branch
    given = [*carried]
    given += [member(expression(before, path), f"{owner}[layer - 1]") for path in loop.previous.values()]
    is_whole = loop.positions == tuple(range(len(branch.branches))) and not loop.previous
    is_by_blocks = is_whole and not loop.listed
    behind = modules_that_follow(loop, tree, outer)
    if behind is not None:
        lines.append(behind.made)
        given += behind.weights(f"next_{behind.word}" if is_by_blocks else f"{behind.word}s[layer + 1]")
    given += [
        entry_of_layer(variables[buffer], one, _further(one.distance)) for buffer, one in loop.listed.items()
    ]
    given += [variables[buffer] for buffer in loop.shared]
    given += [*map(outer.sizes.word_of, block.methods[0].needed), *block.numbers.words]
    targets = [singular.get(place) or variables[buffer] for place, buffer in enumerate(last)]
    if record is not None:
        targets.append(SAVED)
    if is_by_blocks:
        beside = {f"next_{behind.word}": f"{behind.word}s[1:]"} if behind is not None else {}
        head, called = block.numbers.head("block", owner, beside), "block"
    elif is_whole and not block.numbers.words:
        head, called = f"for layer, block in enumerate({owner}):", "block"
    else:
        layers = _layers_text(loop.positions, len(branch.branches), owner)
        head, called = block.numbers.head("layer", layers), f"{owner}[layer]"
    lines += [head, f"    {', '.join(targets)} = {called}({', '.join(given)})"]
    lines += [f"    {name}.append({targets[place]})" for place, name in lists.items()]
    return [*lines, f"    {record.word}.append({SAVED})"] if record is not None else lines


def entry_of_layer(variable: str, one: ListedInput, place: str) -> str:
    """``keys[layer]``: the entry of a list at a place, from another one of it."""
    assert isinstance(variable, Reached)
    return Reached(*variable.steps[: one.depth], f"[{place}]", *variable.steps[one.depth + 1 :])


def _further(distance: int) -> str:
    """``layer + 1``"""
    return f"layer {'+' if distance > 0 else '-'} {abs(distance)}" if distance else "layer"


def _layers_text(positions: Sequence[int], n_layers: int, owner: str) -> str:
    """``range(1, len(self.h))``, ``reversed(range(4))``, or the positions themselves."""
    begin, end = positions[0], positions[-1] + 1
    if positions == tuple(range(begin, end)):
        start = f"{begin}, " if begin else ""
        return f"range({start}{f'len({owner})' if end == n_layers else end})"
    if positions == tuple(reversed(range(positions[-1], begin + 1))):
        span = f"{positions[-1]}, " if positions[-1] else ""
        return f"reversed(range({span}{f'len({owner})' if begin + 1 == n_layers else begin + 1}))"
    return f"({', '.join(map(str, positions))})"


def records_outside_loops(steps: Sequence[ModelStep], variables: Mapping[str, str]) -> list[Paragraph]:
    """What layers outside of the loops save: ``saved_blocks.insert(0, BlockSaved(...))``."""
    paragraphs: list[Paragraph] = []
    for record, place, buffers in records_apart(steps):
        made = write_record(record, [variables[buffer] for buffer in buffers])
        paragraphs.append(Paragraph((), [f"{record.word}.insert({place}, {made})"]))
    return paragraphs
