"""What a call returns: the lines at the end of forward() and launch()."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch.utils._pytree as pytree

from longhand.capture.graph import AliasKind, GraphOutput, Literal
from longhand.emit.layers.loops import ModelStep
from longhand.emit.layers.model_loops import write_record
from longhand.emit.module.paragraphs import Paragraph
from longhand.emit.module.tensor_lists import MadeList
from longhand.emit.module.trees import build, children
from longhand.emit.module.view_calls import argument, write_view
from longhand.emit.names.variables import records_apart
from longhand.emit.text.sizes import SizeWriter
from longhand.lower.ir import View
from longhand.schedule.plan import UnitPlan


def built(
    spec: pytree.TreeSpec, texts: Iterator[str], lists: Sequence[MadeList], types: set[tuple[str, str]]
) -> str:
    """What the user's call returns, put together from its leaves.

    Args:
        spec: How the leaves hang together.
        texts: Of the leaves.
        lists: Those that the call makes, which go by their words.
        types: Is given (module, name) of the user's classes that the text names.
    """
    returned = build(spec, texts, types)
    for one in lists:
        listed = ", ".join(f"{one.name}[{place}]" for place in range(len(one.nodes)))
        returned = returned.replace(f"[{listed}]", one.name)
    return returned


def end_with(paragraphs: list[Paragraph], returned: str, n_results: int) -> None:
    """Appends the return statement, or makes the last statement it."""
    if returned == "None" and paragraphs:
        return
    last = paragraphs[-1].lines[-1] if paragraphs and paragraphs[-1].lines else ""
    target, is_assignment, expression = last.partition(" = ")
    head = returned.split(".")[0].split("[")[0]
    is_single = n_results == 1 and target.isidentifier() and is_assignment and head == target
    if is_single and "#" not in expression and not expression.startswith("empty("):
        rest = returned[len(target) :]
        paragraphs[-1].lines[-1] = f"return {expression}{rest}"
        return
    if paragraphs and paragraphs[-1].lines and not paragraphs[-1].lines[-1].startswith("del "):
        paragraphs[-1].lines.append(f"return {returned}")
    else:
        paragraphs.append(Paragraph((), [f"return {returned}"]))


def trained_lines(
    call: str,
    plan: UnitPlan,
    variables: Mapping[str, str],
    paths: Mapping[str, str],
    sizes: SizeWriter,
    build_leaves: Callable[[list[str]], str],
) -> tuple[str, ...]:
    """The lines of forward() in training: the autograd.Function's results as the user's call returns them.

    What shares an argument's memory is no result of the Function: it is taken here, of what the caller gave.

    Args:
        call: Of the Function.
        plan: Of the forward pass.
        variables: The variable of each buffer.
        paths: How forward() reaches its arguments' tensors.
        sizes: Writes numbers.
        build_leaves: What is returned of the leaves' texts.
    """
    graph = plan.program.graph
    leaves = list(zip(plan.results, graph.outputs, strict=True))[: len(graph.outputs) - graph.n_saved]
    own = [
        result for result, output in leaves if isinstance(result, View) and output.alias is AliasKind.FRESH
    ]
    words = [variables[result.buffer] for result in own]
    words = [
        (
            word
            if words.count(word) == 1 and word.isidentifier() and word not in paths.values()
            else f"result_{i}"
        )
        for i, word in enumerate(words)
    ]
    if len(own) == len(leaves):
        if graph.out_spec.is_leaf():
            return (f"return {call}[0]",)
        is_flat = graph.out_spec.type is tuple and all(one.is_leaf() for one in children(graph.out_spec))
        if is_flat and len(words) > 1:
            return (f"return {call}",)
    texts: list[str] = []
    left = iter(words)
    for result, output in leaves:
        if not isinstance(result, View):
            texts.append(argument(result.value if isinstance(result, Literal) else result, sizes))
        elif output.alias is AliasKind.FRESH:
            texts.append(next(left))
        elif isinstance(output.base, int):  # that result once more
            texts.append(texts[output.base])
        else:
            base = paths.get(result.buffer, variables[result.buffer])
            texts.append(detached(write_view(result, base, sizes, plan.buffers[result.buffer]), output))
    return (f"{', '.join(words)}{',' * (len(words) == 1)} = {call}", f"return {build_leaves(texts)}")


def detached(text: str, output: GraphOutput) -> str:
    """A result that shares memory with what may require grad: without its gradients where it has none."""
    return f"{text}.detach()" if output.is_detached else text


def remark_on_gradients(results: Sequence[object], variables: Mapping[str, str], is_training: bool) -> str:
    """Why the forward pass makes gradients."""
    is_begun = any(
        isinstance(one, View) and variables.get(one.buffer, "").startswith("unscaled_d_") for one in results
    )
    if not is_training or not is_begun:
        return ""
    return "unscaled_d_ is a gradient but for the factor that backward() is given: begun here, less is kept."


def records_outside_loops(steps: Sequence[ModelStep], variables: Mapping[str, str]) -> list[Paragraph]:
    """What layers outside of the loops save: ``saved_blocks.insert(0, BlockSaved(...))``."""
    found: list[Paragraph] = []
    for record, place, buffers in records_apart(steps):
        made = write_record(record, [variables[buffer] for buffer in buffers])
        found.append(Paragraph((), [f"{record.word}.insert({place}, {made})"]))
    return found
