"""The functions of model.py before they are printed: what each does, with which variables, and what leaves it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.module_tree import ModuleTree, expression, member
from longhand.lower.ir import View
from longhand.schedule.named_plan import FunctionBody, Loop, ModelStep, loops_of, steps_of
from longhand.schedule.plan import buffers_read


def layer_variables(loop: Loop, outer: BodyWriter, tree: ModuleTree) -> dict[str, str]:
    """The variable of each buffer in the methods of a loop's class.

    Args:
        loop: The loop.
        outer: The writer of the function around it.
        tree: The modules.
    """
    branch = tree.root.at(f"{loop.owner}.{loop.positions[0]}")
    variables = dict(outer.names.of_layers(loop).variables)
    for buffer, path in {**_weights_saved(loop, outer), **loop.own_weights}.items():
        variables[buffer] = member(expression(branch, path))
    return variables


def _weights_saved(loop: Loop, outer: BodyWriter) -> dict[str, str]:
    """The weights that a layer saves for its backward pass, by the path below it: it need not read them itself."""
    head = f"{loop.repeat.paths[loop.pattern]}."
    targets = {entry.node: entry.target for entry in outer.plan.program.graph.inputs}
    paths = {buffer: targets.get(buffer, "") for buffer in loop.saved}
    return {buffer: path[len(head) :] for buffer, path in paths.items() if path.startswith(head)}


def bodies_of(steps: Sequence[ModelStep], outer: BodyWriter, tree: ModuleTree) -> list[FunctionBody]:
    """forward(), and the methods of the classes of layers.

    Args:
        steps: Of forward().
        outer: Its writer.
        tree: The modules.
    """
    results, n_saved = outer.plan.results, outer.plan.program.graph.n_saved
    kept, of_user = (
        frozenset(view.buffer for view in some if isinstance(view, View))
        for some in (results, results[: len(results) - n_saved])
    )
    bodies = [FunctionBody(steps, outer.variables, kept=kept, saved=kept - of_user)]
    for loop in loops_of(steps):
        bodies += _methods(loop, outer, tree)
    return bodies


def _methods(loop: Loop, outer: BodyWriter, tree: ModuleTree) -> list[FunctionBody]:
    """The functions of a layer: its steps, cut where others call what follows."""
    run = loop.run
    tail = loop.tail.start if loop.tail is not None else 0
    cuts = sorted({0, loop.n_head, tail, len(run)})
    variables = layer_variables(loop, outer, tree)
    numbered = {place for place, _ in loop.repeat.numbers}
    bodies = []
    for start, stop in itertools.pairwise(cuts):
        elsewhere = (*run[:start], *run[stop:])
        read = {name for step in elsewhere for name in buffers_read(step)}
        body = steps_of(loop, start, stop)
        fixed = frozenset(
            place for place, step in enumerate(body) if any(step is run[number] for number in numbered)
        )
        kept = frozenset({*loop.outputs, *loop.saved, *read})
        # A function that is cut has no place for the records of what it calls.
        holds_records = loop.record is not None and len(cuts) == 2
        saved = frozenset(loop.saved if holds_records else ()) - {*loop.outputs, *read}
        path = loop.repeat.paths[loop.pattern]
        bodies.append(FunctionBody(body, variables, path, kept, fixed, saved))
    return bodies
