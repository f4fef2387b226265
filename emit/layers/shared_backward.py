"""Functions of backward.py for what the user wrote once and calls several times, outside of the layers' functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from longhand.emit.layers.shared_functions import SharedFunction, share_functions
from longhand.emit.module.model_body import BodyWriter
from longhand.emit.module.module_tree import ModuleTree
from longhand.lower.ir import View
from longhand.schedule.named_plan import (
    BACKWARD_FORM,
    FunctionBody,
    ListForCalls,
    ModelStep,
    lists_for_calls,
    loops_of,
)
from longhand.schedule.names.words import plural, snake_case

_OWN_VARIABLES = frozenset(
    ["saved", "of_layers", "n_each", "at", "layer", "tensor", "ctx", "model", "parameters"]
)


@dataclasses.dataclass(frozen=True)
class SharedBackward:
    """What the derivatives of several modules have in common.

    Attributes:
        functions: Which they are.
        lists: What the forward pass keeps for their calls.
        single: What it keeps that is read beside those calls.
        body: The writer that knows the calls, and what the functions need.
    """

    functions: tuple[SharedFunction, ...]
    lists: tuple[ListForCalls, ...]
    single: frozenset[str]
    body: BodyWriter

    def __call__(self, body: BodyWriter) -> tuple[SharedFunction, ...]:
        """The functions; the writer of the function around their calls learns of these."""
        body.calls = self.body.calls
        body.needs.merge(self.body.needs)
        return self.functions


def share_backward(
    steps: tuple[ModelStep, ...],
    body: BodyWriter,
    tree: ModuleTree,
    name: str,
    kept: frozenset[str],
    taken: Collection[str],
    in_records: Mapping[str, str],
) -> SharedBackward:
    """Finds it.

    Args:
        steps: Of the function that computes the gradients.
        body: Its writer.
        tree: Of modules.
        name: The function.
        kept: What the forward pass keeps for it.
        taken: The words of further lists.
        in_records: Of that: what stands in records of the forward pass's calls, and the module of each.
    """
    results = frozenset(view.buffer for view in body.plan.results if isinstance(view, View))
    bodies = [FunctionBody(steps, body.variables, kept=results)]
    of_layers = [f"{snake_case(loop.class_name)}{BACKWARD_FORM.ending}" for loop in loops_of(steps)]
    functions = share_functions(bodies, body, tree, [name, *of_layers], BACKWARD_FORM, in_records)
    words = {one.name: plural(one.name.removesuffix(BACKWARD_FORM.ending)) for one in functions}
    used = {*body.variables.values(), *words, *taken, *_OWN_VARIABLES}
    listed = lists_for_calls(steps, body.calls, kept - in_records.keys(), results, words, used)
    body.calls = listed.calls
    return SharedBackward(functions, listed.lists, listed.single | (kept & in_records.keys()), body)
