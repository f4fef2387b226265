"""The first lines of model.py and of a call: what it is, what comes in, and that it is what kernels are for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import sympy
import torch
from torch import fx

from longhand.capture.graph import CapturedGraph, GradientPart, Literal, SymbolicSize
from longhand.emit.module.trained_call import TrainedCall
from longhand.emit.module.trees import Parameter, TensorList
from longhand.emit.module.view_calls import argument
from longhand.emit.text.expression import size_text
from longhand.emit.text.python_code import condition_text
from longhand.emit.text.quoting import python_string
from longhand.emit.text.sizes import SizeWriter
from longhand.lower.ir import Size, View
from longhand.schedule.named_plan import BufferNamer, DimNamer
from longhand.schedule.names.words import identifier, listed
from longhand.schedule.plan import UnitPlan


class CallChecks:
    """Writes the checks of one unit.

    Args:
        graph: What was captured.
        nodes: Its nodes by name.
        parameters: The call's.
        tensors: (placeholder, expression that reaches it) of the call's tensors.
        device: The kind of device.
        plain: Writes numbers.
        gradients: In training: the placeholders that may require grad.
        lists: The arguments that are lists of tensors.
        on_cpu: The placeholders of a unit for a GPU that are on the CPU.

    Attributes:
        runtime: What the lines need of runtime.py.
    """

    def __init__(
        self,
        graph: CapturedGraph,
        nodes: Mapping[str, fx.Node],
        parameters: Sequence[Parameter],
        tensors: Sequence[tuple[str, str]],
        device: str,
        plain: SizeWriter,
        gradients: frozenset[str] | None = None,
        lists: Sequence[TensorList] = (),
        on_cpu: frozenset[str] = frozenset(),
    ) -> None:
        self._on_cpu = on_cpu
        self.runtime: set[str] = set()
        self._graph = graph
        self._nodes = nodes
        self._parameters = parameters
        self._tensors = tuple(tensors)
        self._device = device
        self._plain = plain
        self._gradients = gradients
        self._lists = {one.name: one for one in lists}
        self._sources = self._symbol_sources()

    def lines(self) -> list[str]:
        """Every check, in order."""
        checks: list[str] = []
        first: str | None = None
        for parameter in self._parameters:
            one = self._lists.get(parameter.name)
            if one is not None and one.is_uniform:
                checks.append(self._list(one, first))
                first = first or f"{one.name}[0]"
                continue
            for leaf, path in parameter.leaves:
                if isinstance(leaf, Literal):
                    value = argument(leaf.value, self._plain)
                    checks.append(self._call("check_value", f"{_quoted(path)}, {path}, {value}"))
                elif (leaf, path) in self._tensors:
                    checks.append(self._tensor(leaf, path, first))
                    first = first or (None if leaf in self._on_cpu else path)
        checks += self._symbols()
        checks += self._agreements()
        checks += self._conditions()
        checks += self._apart()
        return self._mode() + checks + self._weights(first)

    def _call(self, name: str, arguments: str) -> str:
        self.runtime.add(name)
        return f"{name}({arguments})"

    def _symbol_sources(self) -> dict[str, str]:
        """For each symbol the expression that tells its value."""
        paths = {leaf: path for p in self._parameters for leaf, path in p.leaves if isinstance(leaf, str)}
        sources: dict[str, str] = {}
        for symbol in self._graph.symbols:
            path = paths.get(symbol.input_node, symbol.name)
            text = path if symbol.dim is None else f"{path}.shape[{symbol.dim}]"
            text = f"({text} - {symbol.offset})" if symbol.offset else text
            sources[str(symbol.symbol)] = f"({text} // {symbol.scale})" if symbol.scale != 1 else text
        return sources

    def _tensor(self, node: str, path: str, first: str | None) -> str:
        value = self._nodes[node].meta["val"]
        words = {str(size.symbol): size.name for size in self._graph.symbols}
        entries = [
            str(size) if isinstance(size, int) else _quoted(size_text(size, words))
            for size in map(as_size, value.shape)
        ]
        shape = f"({', '.join(entries)}{',' * (len(entries) == 1)})"
        device = f'"{self._device}"' if first is None else f"{first}.device"
        if node in self._on_cpu:
            device = 'torch.device("cpu")'
        stride = ""
        if not value.is_contiguous():
            steps = [self._from_arguments(as_size(step)) for step in value.stride()]
            stride = f", stride=({', '.join(steps)}{',' * (len(steps) == 1)})"
        given = f"{path}.detach()" if self._gradients and node in self._gradients else path
        arguments = f"{_quoted(path)}, {given}, dtype={value.dtype}, shape={shape}, device={device}{stride}"
        return self._call("check_tensor", arguments)

    def _list(self, one: TensorList, first: str | None) -> str:
        """The check of a whole list."""
        device = f'"{self._device}"' if first is None else f"{first}.device"
        given = (
            f"{_quoted(one.name)}, {one.name}, dtype={one.dtypes[0]}, shapes={one.constant}, device={device}"
        )
        return self._call("check_tensors", given)

    def _from_arguments(self, size: int | sympy.Expr) -> str:
        return str(size) if isinstance(size, int) else size_text(size, self._sources)

    def _symbols(self) -> list[str]:
        return [self._symbol(symbol) for symbol in self._graph.symbols]

    def _symbol(self, symbol: SymbolicSize) -> str:
        source = self._sources[str(symbol.symbol)]
        limits = f"{symbol.minimum}" + (f", {symbol.maximum}" if symbol.maximum is not None else "")
        return self._call("check_size", f'"{symbol.name}", {source.strip()}, {limits}')

    def _agreements(self) -> list[str]:
        """Sizes that follow from others: the same symbol in a second place, or an expression of symbols."""
        checks = []
        for node, path in self._tensors:
            for dim, size in enumerate(map(as_size, self._nodes[node].meta["val"].shape)):
                if isinstance(size, int):
                    continue
                expected = self._from_arguments(size)
                if expected != f"{path}.shape[{dim}]":
                    checks.append(self._call("check_dim", f"{_quoted(path)}, {path}, {dim}, {expected}"))
        return checks

    def _conditions(self) -> list[str]:
        """What the captured code decided by sizes must be decided so again."""
        words = {str(size.symbol): size.name for size in self._graph.symbols}
        return [
            self._call(
                "check_condition",
                f"{_quoted(condition_text(condition, words))}, {condition_text(condition, self._sources)}",
            )
            for condition in self._graph.conditions
        ]

    def _apart(self) -> list[str]:
        paths = dict(self._tensors)
        if len(paths) < 2 or not self._graph.written.intersection(paths):
            return []
        if self._lists:
            inside = {node for one in self._lists.values() for node in one.nodes}
            words = [*self._lists, *(path for node, path in paths.items() if node not in inside)]
            return [
                self._call("check_lists_apart", ", ".join(f"{identifier(word)}={word}" for word in words))
            ]
        spelled = ", ".join(f"{identifier(path)}={path}" for path in paths.values())
        return [self._call("check_apart", spelled)]

    def _mode(self) -> list[str]:
        if self._graph.mode is None:
            return []
        return [self._call("check_mode", f"self, training={self._graph.mode}")]

    def _weights(self, first: str | None) -> list[str]:
        if not self._graph.is_module or all(entry.is_given for entry in self._graph.inputs):
            return []
        device = f"{first}.device" if first else self._own_device()
        call = self._call("check_weights", f"self, {device}")
        if self._gradients is not None:
            # It refuses weights that require grad, which are what training is about.
            return ["with torch.no_grad():", f"    {call}"]
        return [call]

    def _own_device(self) -> str:
        """Where the call makes its results if no argument tells: of several GPUs the current one, with its number."""
        kind = _quoted(self._device)
        return f"torch.device({kind})" if self._device == "cpu" else f"torch.empty(0, device={kind}).device"


def as_size(size: object) -> int | sympy.Expr:
    """A size of a fake tensor: an int, or the SymPy expression of a symbolic one."""
    if isinstance(size, torch.SymInt):
        expression: sympy.Expr = size.node.expr
        return int(expression) if expression.is_Integer else expression
    assert isinstance(size, int)
    return size


def _quoted(text: str) -> str:
    return python_string(text) if '"' not in text else repr(text)


_MOST_SHAPES = 4  # of a list, in its description


def title(plan: UnitPlan, is_training: bool) -> str:
    """``GPT as kernels for cpu, float32, inference.``"""
    graph, target = plan.program.graph, plan.options.target
    where = target.name + (f" ({target.arch})" if target.arch else "")
    inputs = {entry.node for entry in graph.inputs}
    values = [node.meta.get("val") for node in graph.graph.nodes if node.name in inputs]
    dtypes = [value.dtype for value in values if isinstance(value, torch.Tensor)]
    floats = dict.fromkeys(str(dtype).removeprefix("torch.") for dtype in dtypes if dtype.is_floating_point)
    head = f"{graph.name} as kernels for {', '.join([where, *floats])}"
    updated = updated_arguments(plan)
    if updated and not is_training:
        return f"{head}.\n\nUpdates {listed(updated)} in place."
    return f"{head}, {'training' if is_training else 'inference'}."


def updated_arguments(plan: UnitPlan) -> list[str]:
    """Of a function that returns nothing: the arguments that it is called for, lists as a whole."""
    graph = plan.program.graph
    if graph.is_module or any(isinstance(result, View) for result in plan.results):
        return []
    written = {mutation.input_node for mutation in graph.mutations}
    targets = (entry.target for entry in graph.inputs if entry.node in written)
    return list(dict.fromkeys(re.sub(r"\W.*|_\d+$", "", target) for target in targets))


def signature_lines(
    plan: UnitPlan,
    dims: DimNamer,
    tensors: Sequence[tuple[str, str]],
    sizes: SizeWriter,
    lists: Sequence[TensorList] = (),
) -> Iterator[str]:
    """``x   float32 (batch=4, seq=512, dim=256)``: a line for each tensor of the call and for each result.

    Args:
        plan: The unit's plan.
        dims: Words for dimensions.
        tensors: (placeholder, expression) of the call's tensors.
        sizes: Writes sizes with the words that the tensors bind.
        lists: The arguments that are described as a whole.
    """
    graph = plan.program.graph
    nodes = {node.name: node for node in graph.graph.nodes}
    first_of = {one.nodes[0]: one for one in lists}
    inside = {node for one in lists for node in one.nodes}
    paths = [path for node, path in tensors if node not in inside]
    width = max([len(path) for path in (*paths, *(one.name for one in lists))] + [2])
    said: set[str] = set()
    for node, path in tensors:
        if node in first_of:
            yield f"{first_of[node].name:<{width}}  {described_list(first_of[node])}"
        if node in inside:
            continue
        value = nodes[node].meta["val"]
        entries = [
            _entry(size, word, said)
            for size, word in zip(value.shape, dims.of(node, value.ndim), strict=True)
        ]
        yield f"{path:<{width}}  {_described(value.dtype, entries)}"
    for result in plan.results[: graph.n_results]:
        if isinstance(result, View):
            entries = _sizes_of_view(plan, result, dims, sizes)
            yield f"{'->':<{width}}  {_described(plan.buffers[result.buffer].dtype, entries)}"


def _entry(size: Size, word: str | None, said: set[str]) -> str:
    """A size, by its word if it has one; the number with it the first time."""
    if word is None:
        return str(size)
    if word in said or not isinstance(size, int):
        return word
    said.add(word)
    return f"{word}={size}"


def _sizes_of_view(plan: UnitPlan, view: View, dims: DimNamer, sizes: SizeWriter) -> list[str]:
    buffer = plan.buffers[view.buffer]
    if [str(size) for size in view.shape] == [str(size) for size in buffer.shape]:
        return list(map(str, sizes.dims(buffer)))
    words = dims.of(view.calls[-1].origin, len(view.shape)) if view.calls else (None,) * len(view.shape)
    return [str(sizes.text(size, word)) for size, word in zip(view.shape, words, strict=True)]


def described_list(one: TensorList) -> str:
    """``148 tensors, float32: (512, 64), (64,), (64,), ...``"""
    dtypes = dict.fromkeys(str(dtype).removeprefix("torch.") for dtype in one.dtypes)
    shapes = [*map(str, one.shapes[:_MOST_SHAPES]), *(["..."] if len(one.shapes) > _MOST_SHAPES else [])]
    return f"{len(one.nodes)} tensors, {' and '.join(dtypes)}: {', '.join(shapes)}"


def _described(dtype: torch.dtype, entries: list[str]) -> str:
    return f"{str(dtype).removeprefix('torch.')} ({', '.join(entries)}{',' * (len(entries) == 1)})"


def may_require_grad(plan: UnitPlan, training: TrainedCall | None) -> frozenset[str] | None:
    """The placeholders that may require grad; None where nothing may.

    Without a backward pass those of a unit for training that computes nothing: eager's views carry the gradients.
    """
    if training is not None:
        return training.allowed
    wanted = frozenset(plan.program.graph.grad_inputs) if plan.options.train else frozenset()
    return wanted or None


def remark_on_gradients(results: Sequence[object], words: BufferNamer, is_training: bool) -> str:
    """Why the forward pass makes gradients."""
    made = (words.provenance(one.buffer) for one in results if isinstance(one, View))
    is_begun = any(origin.gradient_of and origin.part is GradientPart.UNSCALED for origin in made)
    if not is_training or not is_begun:
        return ""
    return "unscaled_d_ is a gradient but for the factor that backward() is given: begun here, less is kept."
