"""What several layers share is made before them, wherever the code first comes to it.

Equal calls are one: the ``arange`` of each layer's experts stands in the first layer that has experts, and that layer
would be another one than those after it. Where such a value needs nothing that a layer makes, it stands before them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from torch import fx

from longhand.capture.graph import Provenance
from longhand.lower.ir import Buffer, BufferKind, Step
from longhand.schedule.dependencies import effects
from longhand.schedule.order import nodes_of


def before_layers(
    steps: Sequence[Step],
    position_of: Mapping[str, int],
    nodes: Mapping[str, fx.Node],
    buffers: Mapping[str, Buffer],
) -> Mapping[str, int]:
    """Where each node of the captured graph is to stand: as in `position_of`, but shared values before the layers.

    Args:
        steps: In an order that respects the dependencies.
        position_of: Where each node stands in the captured graph.
        nodes: The nodes, with their provenance.
        buffers: Of the program.
    """
    layers = [frozenset(_layers(step, nodes)) for step in steps]
    first = _first_positions(steps, layers, position_of)
    place = [max((position_of.get(name, -1) for name in nodes_of(step)), default=-1) for step in steps]
    readers, writers = _readers_and_writers(steps)
    touched = [effects(step) for step in steps]
    inside: dict[str, list[int]] = defaultdict(list)
    for number, owners in enumerate(layers):
        for path in {path for path, _ in owners}:
            inside[path].append(number)
    moved: dict[str, int] = {}
    for owner, begin in sorted(first.items(), key=lambda item: item[1]):
        free: set[int] = set()
        for number in inside[owner]:
            one = touched[number]
            if begin > place[number] or not all(_is_made_once(name, buffers, writers) for name in one.writes):
                continue
            needed = {other for name in one.reads for other in writers.get(name, ())}
            if all(other in free or place[other] < begin for other in needed):
                free.add(number)
        shared: set[int] = set()
        for number in sorted(free, reverse=True):
            read_by = {other for name in touched[number].writes for other in readers.get(name, ())}
            its = {layer for layer in layers[number] if layer[0] == owner}
            read_in = [{layer for layer in layers[other] if layer[0] == owner} for other in read_by]
            all_read_in = set[tuple[str, str]]().union(*read_in)
            # Kernels that end this layer and begin the next, or end the one before and begin this one, read what is
            # this one's alone. Of kernels in more layers some may say that they are in this one: they compute again
            # what it is the first to compute.
            is_own = len(its) == 1 and _is_around(its, all_read_in) and all(its <= one for one in read_in)
            if (len(all_read_in) > 1 and not is_own) or read_by & shared:
                shared.add(number)
        for number in shared:
            place[number] = begin - 1
            moved.update(dict.fromkeys(nodes_of(steps[number]), begin - 1))
    return {**position_of, **moved} if moved else position_of


def _is_around(its: set[tuple[str, str]], read_in: set[tuple[str, str]]) -> bool:
    """Whether layers of a list are one and another, or one and the two beside it."""
    ((_, place),) = its
    return len(read_in) <= 2 or all(abs(int(other) - int(place)) <= 1 for _, other in read_in)


def before_derivatives(
    steps: Sequence[Step],
    position_of: Mapping[str, int],
    nodes: Mapping[str, fx.Node],
    buffers: Mapping[str, Buffer],
) -> Mapping[str, int]:
    """`position_of` of a backward pass: what it computes again for several layers stands before the first of them.

    That is what no layer made in the forward either, a table of sines or a mask, what is made of nothing, and what one
    layer made for all of them, such as T5's bias: computed where the first layer reads it, it would make that layer
    another one than those after it.

    Args:
        steps: In an order that respects the dependencies.
        position_of: Where each node stands in the captured graph.
        nodes: The nodes, with their provenance.
        buffers: Of the program.
    """
    layers = [frozenset(_layers(step, nodes)) for step in steps]
    first = _first_positions(steps, layers, position_of)
    readers, writers = _readers_and_writers(steps)
    outside: set[int] = set()
    for number, step in enumerate(steps):
        one = effects(step)
        needed = {other for name in one.reads for other in writers.get(name, ())}
        is_once = all(_is_made_once(name, buffers, writers) for name in one.writes)
        read_by = {other for name in one.writes for other in readers.get(name, ())}
        # What is made of nothing, zeros to add to, is no layer's, wherever it was asked for first.
        is_no_layers = not layers[number] or not one.reads or _alike_in(read_by, steps, nodes)
        if is_no_layers and is_once and needed <= outside:
            outside.add(number)
    moved: dict[str, int] = {}
    begins: dict[int, int] = {}
    for number in sorted(outside, reverse=True):
        read_by = {other for name in effects(steps[number]).writes for other in readers.get(name, ())}
        read_in = {layer for other in read_by for layer in layers[other]}
        owners = {
            owner for owner, _ in read_in if len({place for path, place in read_in if path == owner}) > 1
        }
        positions = [*(first[owner] for owner in owners), *(begins[n] for n in read_by if n in begins)]
        if positions:
            begins[number] = min(positions)
            moved.update(dict.fromkeys(nodes_of(steps[number]), begins[number] - 1))
    return _after_layers(steps, {**position_of, **moved}, layers, (readers, writers), (nodes, buffers))


FEWEST_SUMMED = 3  # layers: a weight's gradient is made of what two neighbours make, but not alike


def _after_layers(
    steps: Sequence[Step],
    position_of: Mapping[str, int],
    layers: Sequence[frozenset[tuple[str, str]]],
    touching: tuple[Mapping[str, Sequence[int]], Mapping[str, Sequence[int]]],
    of: tuple[Mapping[str, fx.Node], Mapping[str, Buffer]],
) -> Mapping[str, int]:
    """`position_of`, but sums over what several layers made, which no layer reads, stand after the last of them.

    The gradient of what all layers of a decoder read is summed up a few layers at a time: where such a part of the sum
    stood, that layer would be another one than those around it. So would the layer that holds a weight of which all
    layers' is the sum: a table of T5's biases.
    """
    (readers, writers), (nodes, buffers) = touching, of
    needed = [{other for name in effects(step).reads for other in writers.get(name, ())} for step in steps]
    read_by = [
        {other for name in effects(step).writes for other in readers.get(name, ())} - {number}
        for number, step in enumerate(steps)
    ]
    may_move = {
        number
        for number, step in enumerate(steps)
        if all(_is_made_once(name, buffers, writers) for name in effects(step).writes)
    }
    makes_results = {number for number in may_move if not read_by[number]}
    waiting: dict[int, str] = {}  # by step: the list of whose layers it is no part
    for number in sorted(may_move - makes_results, reverse=True):
        made_in = {layer for other in needed[number] for layer in layers[other]}
        alike = _alike_in(needed[number], steps, nodes)
        for owner in {owner for owner, _ in made_in}:
            n_summed = len({layer for layer in made_in if layer[0] == owner})
            is_outside = all(
                waiting.get(other) == owner
                or other in makes_results
                or {path for path, _ in layers[other]} != {owner}
                for other in read_by[number]
            )
            if is_outside and (n_summed >= FEWEST_SUMMED or owner in alike):
                waiting[number] = owner
    for number in sorted(makes_results):  # of such a sum
        for other in needed[number] & waiting.keys():
            waiting.setdefault(number, waiting[other])
    of_layers = {number for number, inside in enumerate(layers) if inside}
    for number in sorted(may_move - waiting.keys(), reverse=True):  # what only these read, and no layer made
        owners = {waiting.get(other, "") for other in read_by[number]}
        if len(owners) == 1 and not needed[number] & of_layers and (owner := owners.pop()):
            waiting[number] = owner
    return {**position_of, **_behind(waiting, steps, position_of, layers)}


def _behind(
    waiting: Mapping[int, str],
    steps: Sequence[Step],
    position_of: Mapping[str, int],
    layers: Sequence[frozenset[tuple[str, str]]],
) -> dict[str, int]:
    """Where the nodes of what is no part of the layers are to stand: right behind the last layer's others."""
    place = [max((position_of.get(name, -1) for name in nodes_of(step)), default=-1) for step in steps]
    ends: dict[str, int] = {}
    for number, one in enumerate(layers):
        ends |= {owner: max(place[number], ends.get(owner, -1)) for owner, _ in one if number not in waiting}
    # What several kernels compute, each for itself, says nothing of where one of them stands.
    others = {name for number, step in enumerate(steps) if number not in waiting for name in nodes_of(step)}
    return {
        name: ends[owner] + 1
        for number, owner in waiting.items()
        if place[number] <= ends.get(owner, -1)
        for name in nodes_of(steps[number])
        if name not in others
    }


def _alike_in(numbers: Iterable[int], steps: Sequence[Step], nodes: Mapping[str, fx.Node]) -> set[str]:
    """The lists of which several layers hold one of some steps each, which do the same at one place in their layer."""
    places_of: dict[tuple[str, frozenset[tuple[str, object]]], set[str]] = {}
    for number in numbers:
        done: dict[tuple[str, str], set[tuple[str, object]]] = {}
        for path, place, inside, node in _places(steps[number], nodes):
            done.setdefault((path, place), set()).add((inside, node.target))
        for (path, place), what in done.items():
            places_of.setdefault((path, frozenset(what)), set()).add(place)
    return {path for (path, _), places in places_of.items() if len(places) > 1}


def _readers_and_writers(steps: Sequence[Step]) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """By buffer: which steps read it, and which write it."""
    readers: dict[str, list[int]] = {}
    writers: dict[str, list[int]] = {}
    for number, step in enumerate(steps):
        one = effects(step)
        for names, steps_of in ((one.reads, readers), (one.writes, writers)):
            for name in names:
                steps_of.setdefault(name, []).append(number)
    return readers, writers


def _is_made_once(name: str, buffers: Mapping[str, Buffer], writers: Mapping[str, Sequence[int]]) -> bool:
    return buffers[name].kind is BufferKind.INTERMEDIATE and len(writers[name]) == 1


def _layers(step: Step, nodes: Mapping[str, fx.Node]) -> Iterator[tuple[str, str]]:
    """The layers that a step is in: the path of each list, and the place in it."""
    return ((path, place) for path, place, *_ in _places(step, nodes))


def _places(step: Step, nodes: Mapping[str, fx.Node]) -> Iterator[tuple[str, str, str, fx.Node]]:
    """The layers that a step's nodes are in: the path of the list, the place in it, the path inside it, the node."""
    for name in nodes_of(step):
        told: Provenance = nodes[name].meta.get("provenance", Provenance()) if name in nodes else Provenance()
        parts = told.module.split(".")
        for place, part in enumerate(parts):
            if part.isdigit():
                yield ".".join(parts[:place]), part, ".".join(parts[place + 1 :]), nodes[name]


def _first_positions(
    steps: Sequence[Step], layers: Sequence[frozenset[tuple[str, str]]], position_of: Mapping[str, int]
) -> dict[str, int]:
    """By the path of a list: where the first node of its layers stands."""
    first: dict[str, int] = {}
    for step, inside in zip(steps, layers, strict=True):
        positions = [position_of[name] for name in nodes_of(step) if name in position_of]
        for owner, _ in inside:
            first[owner] = min([*positions, first.get(owner, len(position_of))])
    return first
