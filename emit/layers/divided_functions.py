"""The functions of backward.py whose parts are functions: that of the model, and those of layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from longhand.emit.layers.derivative_functions import DividedFunction
from longhand.emit.module.view_calls import write_view
from longhand.emit.text.python_code import Code
from longhand.emit.text.sizes import SizeWriter
from longhand.lower.ir import View
from longhand.schedule.named_plan import (
    LongFunction,
    Loop,
    ModelStep,
    OneGradient,
    ReturnedGradients,
    keys_of_gradients,
)
from longhand.schedule.plan import Launch, UnitPlan


def divided_model(
    steps: Sequence[ModelStep],
    variables: Mapping[str, str],
    gradients: ReturnedGradients,
    weights: Mapping[str, str],
    saved: frozenset[str],
    plan: UnitPlan,
) -> DividedFunction:
    """That of the model.

    Args:
        steps: What it does.
        variables: Its variables.
        gradients: What it returns.
        weights: By buffer: the path of a weight that it reads in the model.
        saved: What it reads of the record.
        plan: The unit's.
    """
    views: dict[tuple[str, str], View] = {}
    for group in gradients.groups:
        view = plan.results[group.place] if isinstance(group, OneGradient) else None
        if isinstance(group, OneGradient) and isinstance(view, View):
            views[view.buffer, group.path] = view
    paths: dict[str, tuple[str, ...]] = {}
    for buffer, path in views:
        paths[buffer] = (*paths.get(buffer, ()), path)
    of_arguments = [plan.results[place] for place in gradients.arguments]
    kept = {view.buffer for view in of_arguments if isinstance(view, View)}
    kept |= {view.buffer for view in plan.results if isinstance(view, View)} - paths.keys()
    function = LongFunction(steps, variables, "", frozenset(kept), paths, saved, weights, drops_fields=True)

    def write(buffer: str, path: str, variable: str, sizes: SizeWriter) -> Code:
        return write_view(views[buffer, path], variable, sizes, plan.buffers[buffer])

    return DividedFunction(function, write)


def divided_layer(
    loop: Loop,
    variables: Mapping[str, str],
    weights_of: Mapping[str, str],
    weights: Mapping[str, str],
    numbered: Sequence[Launch],
    returned: Callable[[int, str, SizeWriter], Code],
) -> DividedFunction:
    """That of equal layers, as it is for the first run.

    Args:
        loop: The layers.
        variables: Its variables.
        weights_of: By buffer: the weight that it holds the gradient of.
        weights: By buffer: the path of a weight that it reads in the layer, in the model.
        numbered: Launches that are given numbers that differ from layer to layer.
        returned: How it returns the gradient of an output, by its place.
    """
    own, outputs, layer, run = loop.own[0], loop.repeat.outputs[0], loop.repeat.paths[0], loop.repeat.runs[0]
    places = {outputs[place]: place for place in loop.collected}
    paths = {name: weights_of.get(name, "") for name in places}
    head = f"{layer}."
    before = "" if loop.preceding is None else weights[next(iter(loop.preceding.weights))].rpartition(".")[0]
    function = LongFunction(
        run,
        variables,
        layer,
        frozenset(name for name in outputs if not paths.get(name, "").startswith(head)),
        {name: (path.removeprefix(head),) for name, path in paths.items() if path.startswith(head)},
        frozenset(node for node in own if not variables[node].isidentifier()) - weights.keys(),
        weights,
        drops_fields=False,
        fixed=frozenset(place for place, step in enumerate(run) if step in numbered),
        before=before,
        of_before={
            outputs[place]: key
            for place, key in zip(loop.collected, keys_of_gradients(loop, weights_of), strict=True)
            if before and paths[outputs[place]].startswith(f"{before}.")
        },
    )

    def write(buffer: str, path: str, variable: str, sizes: SizeWriter) -> Code:
        return returned(places[buffer], variable, sizes)

    return DividedFunction(function, write)
