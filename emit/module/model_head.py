"""The first lines of model.py: what it is, what comes in and what goes out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import torch

from longhand.emit.module.tensor_lists import TensorList
from longhand.emit.names.dimension_names import DimWords
from longhand.emit.names.words import listed
from longhand.emit.text.sizes import SizeWriter
from longhand.lower.ir import Size, View
from longhand.schedule.plan import UnitPlan

_MOST_SHAPES = 4  # of a list, in its description


def title(plan: UnitPlan, is_training: bool) -> str:
    """``GPT as kernels: examples.gpt.GPT for cpu, float32, inference.``"""
    graph, target = plan.program.graph, plan.options.target
    where = target.name + (f" ({target.arch})" if target.arch else "")
    inputs = {entry.node for entry in graph.inputs}
    values = [node.meta.get("val") for node in graph.graph.nodes if node.name in inputs]
    dtypes = [value.dtype for value in values if isinstance(value, torch.Tensor)]
    floats = dict.fromkeys(str(dtype).removeprefix("torch.") for dtype in dtypes if dtype.is_floating_point)
    head = f"{graph.name} as kernels: {graph.source} for {', '.join([where, *floats])}"
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
    dims: DimWords,
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
    for result in plan.results[: len(plan.results) - graph.n_saved]:
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


def _sizes_of_view(plan: UnitPlan, view: View, dims: DimWords, sizes: SizeWriter) -> list[str]:
    buffer = plan.buffers[view.buffer]
    if [str(size) for size in view.shape] == [str(size) for size in buffer.shape]:
        return sizes.dims(buffer)
    words = dims.of(view.calls[-1].origin, len(view.shape)) if view.calls else (None,) * len(view.shape)
    return list(map(sizes.text, view.shape, words))


def described_list(one: TensorList) -> str:
    """``148 tensors, float32: (512, 64), (64,), (64,), ...``"""
    dtypes = dict.fromkeys(str(dtype).removeprefix("torch.") for dtype in one.dtypes)
    shapes = [*map(str, one.shapes[:_MOST_SHAPES]), *(["..."] if len(one.shapes) > _MOST_SHAPES else [])]
    return f"{len(one.nodes)} tensors, {' and '.join(dtypes)}: {', '.join(shapes)}"


def _described(dtype: torch.dtype, entries: list[str]) -> str:
    return f"{str(dtype).removeprefix('torch.')} ({', '.join(entries)}{',' * (len(entries) == 1)})"
