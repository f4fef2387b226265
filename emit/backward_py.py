"""backward.py: the autograd.Function of a unit for training, and the backward pass as a function of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from longhand.capture.graph import BackwardInput, BackwardKind, InputKind, TrainingGraphs
from longhand.emit.model_py import ModelWriter
from longhand.emit.module_tree import Branch
from longhand.emit.passes import Pass
from longhand.emit.runtime_py import sorted_imports
from longhand.emit.templates import render_template
from longhand.emit.trained_call import TrainedCall
from longhand.emit.words import identifier
from longhand.lower.ir import View
from longhand.schedule.plan import UnitPlan


@dataclasses.dataclass(frozen=True)
class BackwardText:
    """What templates/unit/backward.py.jinja prints.

    Attributes:
        function: The autograd.Function.
        model: What it differentiates.
        is_module: Whether launch() is a method.
        arguments: Of launch().
        results: Words for what launch() returns, the user's results first.
        n_results: How many of them are the user's.
        constants: Words of the user's results that have no gradient.
        saved: What the forward keeps, as expressions in its own words.
        words: The same in the backward's words.
        tangents: The words of the results' gradients, of all results; those that have none begin with ``_``.
        gradients: What backward() returns for each argument and each weight.
        returned: Words for what the backward function returns.
    """

    function: str
    model: str
    is_module: bool
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    n_results: int
    constants: tuple[str, ...]
    saved: tuple[str, ...]
    words: tuple[str, ...]
    tangents: tuple[str, ...]
    gradients: tuple[str, ...]
    returned: tuple[str, ...]


def trained_call(training: TrainingGraphs, plan: UnitPlan) -> TrainedCall:
    """What model.py needs to know of backward.py."""
    parameters = [entry.node for entry in training.forward.inputs if entry.kind is InputKind.PARAMETER]
    return TrainedCall(
        function=f"{training.forward.name[:1].upper()}{training.forward.name[1:]}Function",
        launched=tuple(place for place, result in enumerate(plan.results) if isinstance(result, View)),
        gradients=frozenset(training.gradients),
        frozen=tuple(node for node in parameters if node not in training.gradients),
    )


def write_backward(training: TrainingGraphs, forward: ModelWriter, backward: Pass) -> str:
    """The text of backward.py.

    Args:
        training: Both graphs.
        forward: The writer of model.py.
        backward: The backward pass.
    """
    writer = ModelWriter(backward.plan, backward.names, backward.words)
    text = writer.text()
    function = _Function(training, forward, writer).text()
    imports = {line for line in writer.imports if ".runtime import check" not in line}
    imports.add("import torch")
    if not function.is_module:
        imports.add("from . import model")
    return render_template(
        "backward.py.jinja", backward=text, function=function, imports=sorted_imports(imports)
    )


class _Function:
    """Words for the autograd.Function."""

    def __init__(self, training: TrainingGraphs, forward: ModelWriter, backward: ModelWriter) -> None:
        self.training = training
        self.forward = forward
        self.backward = backward
        self.graph = training.forward

    def text(self) -> BackwardText:
        assert self.forward.training is not None
        arguments = tuple(self.forward.launch_arguments())
        n_results = len(self.graph.outputs) - self.graph.n_saved
        results = self._result_words(set(arguments))
        kept = [entry for entry in self.training.inputs if entry.kind is not BackwardKind.GRADIENT]
        tangents = {e.source: self._word(e) for e in self.training.inputs if e.kind is BackwardKind.GRADIENT}
        launched = self.forward.training.launched
        user = [place for place in launched if place < n_results]
        return BackwardText(
            function=self.forward.training.function,
            model=self.graph.name,
            is_module=self.graph.is_module,
            arguments=arguments,
            results=tuple(results[place] for place in launched),
            n_results=len(user),
            constants=tuple(results[place] for place in user if place not in self.training.differentiable),
            saved=tuple(self._source(entry, results) for entry in kept),
            words=tuple(self._word(entry) for entry in kept),
            tangents=tuple(tangents.get(place, f"_{results[place]}") for place in user),
            gradients=tuple(self._gradients(arguments)),
            returned=tuple(self._returned()),
        )

    def _word(self, entry: BackwardInput) -> str:
        return self.backward.variables[entry.node]

    def _result_words(self, taken: set[str]) -> dict[int, str]:
        """A word for each tensor that launch() returns."""
        words: dict[int, str] = {}
        used = set(taken)
        for place, result in enumerate(self.forward.plan.results):
            if isinstance(result, View):
                word = identifier(self.forward.variables[result.buffer].rpartition(".")[2].partition("[")[0])
                unique, count = word, 1
                while unique in used:
                    unique, count = f"{word}_{count}", count + 1
                used.add(unique)
                words[place] = unique
        return words

    def _source(self, entry: BackwardInput, results: dict[int, str]) -> str:
        """How the Function's forward reaches a value that the backward reads."""
        if isinstance(entry.source, int):
            return results[entry.source]
        expression = self.forward.variables[entry.source]
        return f"model{expression.removeprefix('self')}" if expression.startswith("self") else expression

    def _returned(self) -> Iterator[str]:
        for name in self.training.gradients:
            yield f"d_{identifier(name)}"

    def _gradients(self, arguments: tuple[str, ...]) -> Iterator[str]:
        """In the order of apply()'s arguments."""
        wanted = {name: f"d_{identifier(name)}" for name in self.training.gradients}
        leaves = [leaf for p in self.forward.parameters for leaf, _ in p.leaves if isinstance(leaf, str)]
        if self.graph.is_module:
            yield "None"
        yield from (wanted.get(leaf, "None") for leaf in leaves)
        nodes = {entry.target: entry.node for entry in self.graph.inputs if entry.kind is InputKind.PARAMETER}
        for path in parameter_order(self.forward.tree.root):
            yield wanted.get(nodes.get(path, ""), "None")


def parameter_order(root: Branch) -> list[str]:
    """The paths of the parameters in the order of ``module.parameters()``; tied ones once, under their first path."""
    found: dict[str, None] = {}

    def visit(branch: Branch, prefix: str) -> None:
        held = (
            sorted(branch.held.items(), key=lambda item: bool(item[1].tied_to))
            if not prefix
            else list(branch.held.items())
        )
        for name, tensor in held:
            if tensor.kind is InputKind.PARAMETER:
                found[tensor.tied_to or f"{prefix}{name}"] = None
        for name, child in branch.branches.items():
            visit(child, f"{prefix}{name}.")

    visit(root, "")
    return list(found)
