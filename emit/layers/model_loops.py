"""Repeated blocks in model.py: one class with a forward(), and the loop that calls it for each layer.

A sum that one layer leaves to the next is told there: its first kernel reads both summands anyway.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from longhand.emit.layers.class_names import free_name
from longhand.emit.layers.layer_numbers import NO_NUMBERS, LayerNumbers, name_numbers
from longhand.emit.layers.pending_sums import remark_on_pending_sum
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.model_weights import construct_block
from longhand.emit.module.module_tree import Branch, ModuleTree, expression, member, module_expression
from longhand.emit.module.paragraphs import Paragraph, PythonLine, quote_lines, returned_value
from longhand.emit.text.quoting import python_docstring
from longhand.emit.text.sizes import SizeWriter
from longhand.schedule.named_plan import (
    SAVED,
    FirstCall,
    Loop,
    ModelStep,
    SavedLayers,
    list_holding,
    plain_steps,
    steps_of,
)
from longhand.schedule.names.words import own_name
from longhand.schedule.plan import Release, buffers_made

_WIDEST = 98
_APART = "What the layers do alike. Where one ends and the next begins is a kernel of both, beside the calls."


@dataclasses.dataclass(frozen=True)
class Method:
    """A function of a block's class.

    Attributes:
        name: ``forward``; of what the run before the loop shares, ``after_ln_1``.
        remark: What its docstring says, or empty.
        parameters: Its parameters.
        sizes: Lines that bind sizes to words.
        paragraphs: (quotes, lines).
        needed: Symbols of sizes that none of its tensors tells: their words are its last parameters.
    """

    name: str
    remark: str
    parameters: tuple[str, ...]
    sizes: tuple[str, ...]
    paragraphs: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    needed: tuple[str, ...] = ()


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


def write_block(loop: Loop, outer: BodyWriter, tree: ModuleTree, taken: list[str]) -> LayerClass:
    """The class that all layers of a loop share, written from the first one.

    Args:
        loop: The loop.
        outer: The writer of the function around it; learns what the block needs imported.
        tree: The modules.
        taken: Names of classes that are there already.
    """
    first = f"{loop.owner}.{loop.positions[0]}"
    branch = tree.root.at(first)
    variables = dict(outer.names.of_layers(loop).variables)
    for buffer, path in {**_weights_saved(loop, outer), **loop.own_weights}.items():
        variables[buffer] = member(expression(branch, path))
    inputs = (*loop.inputs, *loop.previous, *loop.shared)
    results = [variables[buffer] for buffer in loop.outputs]
    saved = ""
    if loop.record is not None:
        saved = write_record(loop.record, [variables[buffer] for buffer in loop.saved])
    pending = _APART if loop.is_apart else remark_on_pending_sum(loop, outer.words, variables)
    methods: tuple[Method, ...]
    device = device_inside((*inputs, *loop.own_weights), outer, variables)
    word = _position_word(branch) if loop.alternatives or branch.varies_by_layer else ""
    numbers = name_numbers(loop, outer.plan, outer.names, {*variables.values(), *outer.variables.values()})
    if loop.n_head:
        head, rest = steps_of(loop, 0, loop.n_head), steps_of(loop, loop.n_head)
        newest = variables[_newest(loop)]
        second = f"after_{newest}"
        while second in {*branch.branches, *branch.held}:
            second += "_"
        remark = f"What follows {newest}. The first block starts here: its {newest} is made before the loop."
        after_device = device_inside((*loop.rest_inputs, *loop.own_weights), outer, variables)
        returned = [variables[buffer] for buffer in loop.rest_outputs]
        after = write_method(
            second,
            remark,
            loop.rest_inputs,
            _own(rest),
            returned,
            outer,
            variables,
            after_device,
            word,
            saved,
        )
        sizes = sizes_inside(inputs, outer, variables)
        given = [*(variables[buffer] for buffer in loop.rest_inputs), *map(sizes.word_of, after.needed)]
        call = f"self.{second}({', '.join(given)})"
        kept = [SAVED] if saved else []
        is_all = returned == results
        forward = write_method(
            "forward",
            pending,
            inputs,
            head,
            [call] if is_all else [*results, *kept],
            outer,
            variables,
            device,
            word,
            sizes=sizes,
            last=None if is_all else PythonLine.assignment(", ".join([*returned, *kept]), call),
        )
        methods = (forward, after)
    else:
        steps = steps_of(loop)
        forward = write_method(
            "forward", pending, inputs, steps, results, outer, variables, device, word, saved, numbers=numbers
        )
        methods = (forward,)
    made = construct_block(tree.root, first, word)
    name = free_name(own_name(loop.class_name), taken, loop.owner, is_in_turn=loop.is_in_turn)
    return LayerClass(
        name,
        python_docstring(loop.owner),
        made.base,
        made.base_arguments,
        tuple(made.members),
        methods,
        frozenset(made.runtime_names),
        word,
        bool(loop.alternatives),
        numbers,
        made.uses_nn,
    )


def _weights_saved(loop: Loop, outer: BodyWriter) -> dict[str, str]:
    """The weights that a layer saves for its backward pass, by the path below it: it need not read them itself."""
    head = f"{loop.repeat.paths[loop.pattern]}."
    targets = {entry.node: entry.target for entry in outer.plan.program.graph.inputs}
    paths = {buffer: targets.get(buffer, "") for buffer in loop.saved}
    return {buffer: path[len(head) :] for buffer, path in paths.items() if path.startswith(head)}


def write_method(
    name: str,
    remark: str,
    inputs: Sequence[str],
    steps: Sequence[ModelStep],
    results: list[str],
    outer: BodyWriter,
    variables: dict[str, str],
    device: str,
    position: str = "",
    saved: str = "",
    sizes: SizeWriter | None = None,
    numbers: LayerNumbers = NO_NUMBERS,
    last: PythonLine | None = None,
) -> Method:
    """A function of a block from the steps of one run.

    Args:
        name: The function.
        remark: What its docstring says, or empty.
        inputs: The buffers that it takes.
        steps: What it does.
        results: What it returns, as expressions.
        outer: The writer of the function around the loop.
        variables: The variable of each buffer.
        device: Of new tensors, as an expression.
        position: The attribute that holds the layer's place, if the steps ask for it.
        saved: What it returns last for its backward pass, or empty.
        sizes: The sizes inside, if some are used already.
        numbers: What it is given of the numbers that layers differ in.
        last: A line after the steps, or none.
    """
    parameters = [variables[buffer] for buffer in inputs]
    sizes = sizes or sizes_inside(inputs, outer, variables)
    body = BodyWriter(
        outer.plan,
        outer.names,
        outer.words,
        variables,
        sizes,
        device,
        position=position,
        is_of_layers=True,
        numbers=numbers.at,
    )
    paragraphs = body.write(steps, {})
    if last is not None:
        paragraphs.append(Paragraph((), [last]))
    if saved:
        paragraphs.append(Paragraph((), [PythonLine.assignment(SAVED, saved)]))
        results = [*results, SAVED]
    _return(paragraphs, results)
    outer.needs.merge(body.needs)
    printed = tuple((tuple(quote_lines(p.quotes, _WIDEST)), tuple(p.lines)) for p in paragraphs)
    needed = sizes.needed
    parameters += [*map(sizes.word_of, needed), *numbers.words]
    bound = sizes.binding_lines()
    return Method(name, remark, tuple(parameters), tuple(bound), printed, needed)


def device_inside(buffers: Sequence[str], outer: BodyWriter, variables: dict[str, str]) -> str:
    """The device of new tensors in a function of layers, which may take nothing: that of a weight then."""
    there = (buffer for buffer in buffers if buffer not in outer.plan.program.on_cpu)
    buffer = next(there, None)
    return outer.device if buffer is None else f"{variables[buffer]}.device"


def _newest(loop: Loop) -> str:
    """What the steps before the shared ones make last and hand over."""
    made = [buffer for step in loop.run[: loop.n_head] for buffer in buffers_made(step)]
    return next((buffer for buffer in reversed(made) if buffer in loop.rest_inputs), loop.rest_inputs[-1])


def _own(steps: Sequence[ModelStep]) -> list[ModelStep]:
    """Steps without releases of what came from outside: the caller holds it."""
    made: set[str] = set()
    found: list[ModelStep] = []
    for step in steps:
        if isinstance(step, Release):
            step = Release(tuple(buffer for buffer in step.buffers if buffer in made))
        made.update(buffer for one in plain_steps(step) for buffer in buffers_made(one))
        found.append(step)
    return found


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
    lines: list[str] = [PythonLine.assignment(targets, value)]
    return [*lines, f"{loop.record.word} = [{SAVED}]"] if loop.record is not None else lines


def write_record(record: SavedLayers, values: Sequence[str]) -> str:
    """``BlockSaved(widen=widen, widen_weight=self.mlp.widen.weight)``"""
    fields = (f"{field}={value}" for field, value in zip(record.fields, values, strict=True))
    return f"{record.class_name}({', '.join(fields)})"


def sizes_inside(inputs: Sequence[str], outer: BodyWriter, variables: dict[str, str]) -> SizeWriter:
    """Sizes from the shapes of a function's own arguments."""
    tensors = []
    for buffer in inputs:
        found = outer.plan.buffers[buffer]
        tensors.append((variables[buffer], outer.sizes.words_of(found), found.shape))
    return outer.sizes.for_tensors(tensors, set(variables.values()))


def _return(paragraphs: list[Paragraph], results: list[str]) -> None:
    returned = ", ".join(results)
    value = returned_value(paragraphs[-1].lines[-1] if paragraphs else "", returned)
    if value is not None:
        paragraphs[-1].lines[-1] = f"return {value}"
    elif paragraphs:
        paragraphs[-1].lines.append(f"return {returned}")


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
    lines: list[str] = []
    carried: dict[int, str] = {}
    lists = {place: list_holding(variables[last[place]]) for place in loop.collected}
    singular = outer.names.of_layers(loop).of_one
    for place, source in enumerate(loop.carried):
        variable = singular.get(source) or variables[last[source]]
        carried[place] = variable
        if variables[first[place]] != variable:
            lines.append(f"{variable} = {variables[first[place]]}")
    lines += [f"{name} = []" for name in lists.values()]
    record = loop.record
    if record is not None and not loop.n_head:
        lines.append(f"{record.word} = []")
    branch = tree.at(loop.owner)
    owner = member(module_expression(tree, loop.owner)) if loop.owner else "self"
    before = tree.at(f"{loop.owner}.{loop.positions[0] - 1}") if loop.previous else branch
    given = list(carried.values())
    given += [member(expression(before, path), f"{owner}[layer - 1]") for path in loop.previous.values()]
    given += [variables[buffer] for buffer in loop.shared]
    given += [*map(outer.sizes.word_of, block.methods[0].needed), *block.numbers.words]
    targets = [singular.get(place) or variables[buffer] for place, buffer in enumerate(last)]
    if record is not None:
        targets.append(SAVED)
    is_whole = loop.positions == tuple(range(len(branch.branches))) and not loop.previous
    if is_whole:
        head, called = block.numbers.head("block", owner), "block"
    else:
        layers = _layers_text(loop.positions, len(branch.branches), owner)
        head, called = block.numbers.head("layer", layers), f"{owner}[layer]"
    lines += [head, f"    {', '.join(targets)} = {called}({', '.join(given)})"]
    lines += [f"    {name}.append({targets[place]})" for place, name in lists.items()]
    return [*lines, f"    {record.word}.append({SAVED})"] if record is not None else lines


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
