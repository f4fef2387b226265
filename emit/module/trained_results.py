"""The ends of forward() and of launch() in training: what the user's call returns, and what the backward pass reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from longhand.capture.graph import AliasKind, Literal
from longhand.emit.layers.saved_call import Source, write_saved
from longhand.emit.module.model_text import as_object
from longhand.emit.module.paragraphs import PythonLine
from longhand.emit.module.trained_call import TrainedCall
from longhand.emit.module.trees import children
from longhand.emit.module.view_calls import argument, write_view
from longhand.emit.text.sizes import SizeWriter
from longhand.lower.ir import Extern, View
from longhand.schedule.named_plan import SAVED, Branch, Reached, entry_of
from longhand.schedule.plan import UnitPlan, flat_steps


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


def launch_results(
    training: TrainedCall,
    plan: UnitPlan,
    variables: Mapping[str, str],
    root: Branch,
    texts: dict[Source, str],
) -> list[str]:
    """The last lines of launch(): the record of what the backward pass reads, and the return statement.

    Args:
        training: What it returns.
        plan: Of the forward pass.
        variables: The variable of each buffer.
        root: Of the modules.
        texts: How each result, and each tensor that is saved, is reached.
    """
    lines = _results_by_name(training, plan, {*variables.values()}, texts)
    returned = list(dict.fromkeys(texts[place] for place in training.launched))
    if training.saved is not None:
        reached = [entry_of(text) for text in {*variables.values()}]
        lengths = Counter(entry[0] for entry in reached if entry is not None)
        made = write_saved(training.saved, texts, lengths, lambda modules: _n_modules(root, modules))
        lines.append(PythonLine.binding([SAVED], made))
        returned.append(SAVED)
    return [*lines, f"return {', '.join(returned)}{',' * (len(returned) == 1)}"]


def _results_by_name(
    training: TrainedCall, plan: UnitPlan, used: set[str], texts: dict[Source, str]
) -> list[str]:
    """Lines that give a name to what is a result and is saved, too: both are one object, as autograd wants it.

    Results that come from library calls may be views: they leave the Function as tensors that may be written.
    """
    made = {name for step in flat_steps(plan.steps) if isinstance(step, Extern) for name in step.outputs}
    saved = training.saved.sources if training.saved is not None else frozenset[Source]()
    lines: list[str] = []
    words: dict[str, str] = {}  # by text
    for place in training.launched:
        text, result = texts[place], plan.results[place]
        assert isinstance(result, View)
        is_view = result.buffer in made
        if text in words:
            texts[place] = words[text]
        elif is_view or (not text.isidentifier() and place in saved):
            word = text if text.isidentifier() else f"result_{place}"
            while word in used and word != text:
                word = f"{word}_"
            used.add(word)
            words[text] = texts[place] = word
            end = ".data  # no view, so that it may be written" if is_view else ""
            lines.append(f"{word} = {text}{end}")
    texts.update({source: words.get(text, text) for source, text in texts.items()})
    return lines


def _n_modules(root: Branch, modules: Reached) -> int:
    """How many modules the list has that launch() reaches as ``self.blocks``."""
    holder: Branch | None = root
    for step in modules.steps[1:]:
        holder = holder.branches.get(str(step).lstrip(".")) if holder is not None else None
    return len(holder.branches) if holder is not None else -1
