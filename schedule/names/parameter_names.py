"""The names of a call's parameters, and how each is nested: in the order of the user's signature."""

from __future__ import annotations

import torch.utils._pytree as pytree

from longhand.capture.graph import CapturedGraph, Literal
from longhand.schedule.names.words import own_name


def children(spec: pytree.TreeSpec) -> list[pytree.TreeSpec]:
    """The sub-trees, by whichever name this torch knows them."""
    if hasattr(spec, "children"):
        return list(spec.children())
    return list(spec.children_specs)


def parameter_specs(graph: CapturedGraph) -> list[tuple[str, pytree.TreeSpec]]:
    """The name and the nesting of each parameter of the user's call, in the order of its leaves."""
    args_spec, kwargs_spec = children(graph.in_spec)
    signature = graph.signature
    positional = [
        (own_name(signature[place] if place < len(signature) else f"argument_{place}"), spec)
        for place, spec in enumerate(children(args_spec))
    ]
    by_key = zip(kwargs_spec.context or [], children(kwargs_spec), strict=True)
    return [*positional, *((own_name(str(key)), spec) for key, spec in by_key)]


def parameters_in_order(
    graph: CapturedGraph,
) -> list[tuple[str, pytree.TreeSpec, tuple[str | Literal, ...]]]:
    """Each parameter's name, its nesting and its leaves, in the order of the user's signature."""
    leaves = iter(graph.argument_leaves)
    parameters = [
        (name, spec, tuple(next(leaves) for _ in range(spec.num_leaves)))
        for name, spec in parameter_specs(graph)
    ]
    order = {own_name(name): place for place, name in enumerate(graph.signature)}
    return sorted(parameters, key=lambda parameter: order.get(parameter[0], len(order)))


def given_values(graph: CapturedGraph) -> list[str]:
    """The placeholders that the arguments feed, in the order of the user's signature."""
    return [leaf for _, _, leaves in parameters_in_order(graph) for leaf in leaves if isinstance(leaf, str)]
