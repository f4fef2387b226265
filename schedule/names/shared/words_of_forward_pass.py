"""What a backward pass calls by the words of its forward pass: what that saved, what is made again, and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import fx

from longhand.capture.graph import BackwardKind, GradientPart, Provenance
from longhand.schedule.names.forward_names import ForwardNames
from longhand.schedule.names.meanings.graph_values import sum_of_summands
from longhand.schedule.names.shared.function_variables import FunctionVariables
from longhand.schedule.names.unit_names import NamedPlan
from longhand.schedule.names.words import GradientWord
from longhand.schedule.plan import TrainingPlan


def words_of_forward_pass(training: TrainingPlan, forward: NamedPlan) -> ForwardNames:
    """What the forward pass calls what the backward pass reads, makes again, or makes the gradients of."""
    words, values = forward.words, training.graphs.forward.outputs
    known = _Found(forward)
    saved: dict[str, str] = {}  # by the forward's value: its placeholder here
    given: dict[str, str] = {}  # by the placeholder of a gradient: the forward's value
    for entry in training.graphs.inputs:
        value = values[entry.source].value if isinstance(entry.source, int) else None
        if entry.kind in (BackwardKind.SAVED, BackwardKind.RESULT) and isinstance(value, str):
            saved[value] = entry.node
            known.add(entry.node, value, words.candidates(value), is_read=True)
        elif entry.kind is BackwardKind.GRADIENT and isinstance(value, str):
            given[entry.node] = value
            known.add(entry.node, value, map(GradientWord, words.candidates(value)))
            known.add_variable(entry.node, value, GradientWord)
    differentiated = {node: saved[value] for node, value in given.items() if value in saved}
    for node in training.backward.program.graph.graph.nodes:  # what lowering added has words, too
        origin: Provenance = node.meta.get("provenance", Provenance())
        if origin.gradient_of in words.nodes:
            value = words.value_of_gradient(origin)
            assert value is not None
            known.add(node.name, value, words.gradient(origin))
            if origin.part is GradientPart.WHOLE:
                known.add_variable(node.name, value, GradientWord)
            if value in saved and origin.part is GradientPart.WHOLE:
                differentiated[node.name] = saved[value]
        elif (value := sum_of_summands(node, words.value_of_gradient)) is not None and not any(
            sum_of_summands(user, words.value_of_gradient) for user in node.users
        ):
            known.add(node.name, value, map(GradientWord, words.candidates(value)))
            known.add_variable(node.name, value, GradientWord)
        elif not origin.differentiates and is_again(node, words.nodes.get(node.name)):
            known.add_variable(node.name, node.name, str)
    return ForwardNames(known.words, known.fillers, known.modules, differentiated, known.variables)


class _Found:
    """The forward's words as they are gathered."""

    def __init__(self, forward: NamedPlan) -> None:
        self.forward = forward
        self.words: dict[str, tuple[str, ...]] = {}
        self.fillers: dict[str, frozenset[str]] = {}
        self.modules: dict[str, str] = {}
        self.variables: dict[str, dict[str, str]] = {}
        named = forward.names
        self._of_forward = FunctionVariables.of(named.steps, forward.words, named.buffers)

    def add(self, node: str, value: str, words: Iterable[str], is_read: bool = False) -> None:
        """A node of the backward pass that is a value of the forward pass, or a gradient of it.

        Args:
            node: Its name.
            value: The forward's.
            words: One for each of the value's own.
            is_read: Whether it is the value itself.
        """
        plain, candidates = list(self.forward.words.candidates(value)), tuple(words)
        fillers = self.forward.words.fillers(value)
        self.fillers[node] = frozenset(
            word for word, of in zip(candidates, plain, strict=False) if of in fillers
        )
        variable = self.forward.names.buffers.get(value, "")  # where each of its words is another layer's
        if is_read and variable.isidentifier():
            self.variables[node] = {"": variable}
            if variable not in candidates:
                candidates = (*candidates, variable)
                self.fillers[node] |= {variable}  # it says whose it is: no module comes before it
        self.words[node] = candidates
        self.modules[node] = self.forward.words.module_of(value)

    def add_variable(self, node: str, value: str, make: Callable[[str], str]) -> None:
        """The forward's variables for a value, as words for a node of the backward pass."""
        variables = self._of_forward.of_buffer(value)
        self.variables[node] = {layer: make(word) for layer, word in variables.items()}


def is_again(node: fx.Node, source: fx.Node | None) -> bool:
    """Whether a node of a backward pass computes a value of the forward pass, one of its name, once more.

    The two graphs count their nodes separately: another ``transpose_11`` is of another statement, or another size.
    """
    return source is not None and _told(node) == _told(source)


def _told(node: fx.Node) -> tuple[object, ...]:
    """What two copies of one node have in common."""
    value = node.meta.get("val")
    shape = tuple(map(str, value.shape)) if isinstance(value, torch.Tensor) else None
    settings = fx.node.map_arg((node.args, node.kwargs), lambda _: None)
    return node.target, node.meta.get("provenance"), shape, str(settings)
