"""The end of forward() in training: what the autograd.Function returns, as the user's call returns it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from longhand.capture.graph import AliasKind, Literal
from longhand.emit.module.model_text import as_object
from longhand.emit.module.trees import children
from longhand.emit.module.view_calls import argument, write_view
from longhand.emit.text.sizes import SizeWriter
from longhand.lower.ir import View
from longhand.schedule.plan import UnitPlan


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
    left = iter(words)
    made = {
        place: next(left)
        for place, (result, output) in enumerate(leaves)
        if isinstance(result, View) and output.alias is AliasKind.FRESH
    }
    texts: list[str] = []
    for place, (result, output) in enumerate(leaves[: graph.n_results]):
        if not isinstance(result, View):
            texts.append(str(argument(result.value if isinstance(result, Literal) else result, sizes)))
        elif place in made:
            texts.append(made[place])
        else:
            of = plan.results[output.base] if isinstance(output.base, int) else None
            given = paths.get(result.buffer, variables[result.buffer])
            word = made[output.base] if isinstance(output.base, int) else given
            n_before = len(of.calls) if isinstance(of, View) else 0
            code = write_view(result, word, sizes, plan.buffers[result.buffer], n_before)
            texts.append(as_object(str(code), output, word))
    return (f"{', '.join(words)}{',' * (len(words) == 1)} = {call}", f"return {build_leaves(texts)}")
