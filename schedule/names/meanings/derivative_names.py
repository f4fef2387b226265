"""What kernels of a backward pass are called: after what they differentiate, whatever they compute again for that."""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx

from longhand.capture.graph import Provenance
from longhand.lower.ir import Reduce
from longhand.schedule.names.meanings.kernel_formulas import derivative_of_norm
from longhand.schedule.names.operation_names import (
    aten_name,
    derivative_word,
    is_activation,
    is_formula,
    is_norm,
    loud_names,
    name_of_ops,
    op_word,
    provenance_of,
)
from longhand.schedule.names.shared.callers import Caller
from longhand.schedule.names.words import GradientWord
from longhand.schedule.plan import KernelPlan

_COMPARISONS = frozenset({"le", "lt", "ge", "gt", "eq", "ne"})


def of_derivatives(plan: KernelPlan, caller: Caller, stored: Sequence[str]) -> str | None:
    """``d_gelu``, ``d_batch_norm_relu``: what is differentiated, in the order of the forward pass.

    What is computed again, and sums of rows beside the gradient, are no results that a name says.
    None where nothing with a name is differentiated.

    Args:
        plan: The kernel.
        caller: Its call.
        stored: What that writes.
    """
    nodes, words = caller.nodes, caller.words
    origins = {node: provenance_of(node) for node in nodes}
    derived = list(dict.fromkeys(derivative_word(o) for o in origins.values() if o.differentiated))
    if not derived:
        return None
    if [aten_name(node) for node in nodes if not op_word(node).silent] == ["sum"]:
        return _of_sum(plan)  # whatever it is the gradient of
    made = {*map(words.origins.node_of, stored)}
    kept = [node for node in nodes if node.name in made]
    if kept and all(map(is_mask, kept)):
        return f"{derived[-1].of}_mask"  # which a backward pass reads
    if all(origins[node].role and not origins[node].gradient_of for node in kept):
        return f"{derived[0].of}_{origins[kept[-1]].role}" if kept else None
    ops = {origins[node].differentiates: derivative_word(origins[node]) for node in kept}
    several = {word for word in derived if [*ops.values()].count(word) > 1}
    named = [f"{word.of}s" if word in several else word.of for word in reversed(derived)]  # as forward goes
    leaves = [(_parameter_word(origins[node]), origins[node].differentiated) for node in kept]
    if plan.schedule.is_down_columns and (own := {leaf for leaf, of in leaves if leaf and of}):
        named.append(max(own))  # the bias's is a sum beside that of the weight
    elif plan.schedule.is_down_columns and all(leaf for leaf, _ in leaves):
        named.append("column_sum")
    elif any(
        not o.differentiated and o.differentiates and op_word(n).word == "add" for n, o in origins.items()
    ):
        named.insert(0, "add")
    elif named == ["softmax"] and any(map(_is_scaled, nodes)):
        named = ["scale_softmax"]
    if named == [derived[0].of] and _ends_norm(plan, named[0]):
        return f"d_{named[0]}_last_step"
    if (
        named == [derived[0].of]
        and is_norm(named[0])
        and kept
        and not any(origins[n].gradient_of for n in kept)
    ):
        return f"d_{named[0]}_first_step"  # another kernel does the last one
    again = _computed_again(caller, made)
    if again == derived[0].of and not is_activation(again) and not is_norm(again):
        return f"{again}_and_gradient"  # the forward pass makes both: of a loss
    made_words = [next(words.candidates(name), "") for name in stored]
    is_on_the_way = not any(isinstance(word, GradientWord) for word in made_words)
    if kept and is_on_the_way and not any(origins[node].role for node in kept) and len(kept) == len(stored):
        return f"d_{derived[0].of}_{'_and_'.join(made_words)}"  # a ``product``
    return f"d_{again}" if is_activation(again) and len(derived) == 1 else f"d_{'_'.join(named)}"


def _ends_norm(plan: KernelPlan, word: str) -> bool:
    """Whether a kernel does the last step of a norm's derivative: it is given all that is summed over a row.

    Over a batch a derivative has that step in a kernel of its own: nobody looks for the sums there.
    """
    is_summed = any(isinstance(value, Reduce) for value in plan.body)
    return is_norm(word) and word != "batch_norm" and not is_summed


def is_mask(node: fx.Node) -> bool:
    """Whether a node only says of each element of a value whether a derivative goes on there: no gradient itself."""
    return bool(provenance_of(node).differentiates) and aten_name(node) in _COMPARISONS


def _computed_again(caller: Caller, made: set[str]) -> str:
    """``swiglu``: what a kernel computes and stores beside a derivative of it; empty of a derivative alone."""
    words = caller.words
    is_kept = any(name in words.nodes and not words.provenance(name).differentiates for name in made)
    again = [node for node in caller.nodes if not provenance_of(node).differentiates]
    return name_of_ops(again) if is_kept and again else ""


def of_norm_derivative(plan: KernelPlan, nodes: list[fx.Node]) -> str | None:
    """``d_rms_norm``: a norm that the user wrote out, differentiated, with what is computed again for that.

    With the formula that came after it: ``d_rms_norm_rotary``.
    """
    norm = derivative_of_norm(plan)
    words = [word.of for word in loud_names(nodes) if isinstance(word, GradientWord) and is_formula(word)]
    after = [word for word in words if not is_norm(word)][:1]
    return "_".join([f"d_{norm}", *after]) if norm else None


def of_summands(nodes: list[fx.Node]) -> str | None:
    """``add_gradients``: a kernel that only adds up what several users of a value give it."""
    is_sum = all(
        op_word(n).silent or (op_word(n).word == "add" and provenance_of(n).differentiates) for n in nodes
    )
    return "add_gradients" if is_sum and not all(op_word(node).silent for node in nodes) else None


def of_softmax_backward(nodes: list[fx.Node]) -> str | None:
    """``d_softmax``: a softmax inside of an attention is differentiated as ``weights * (d - sum(d * weights))``."""
    loud = [node for node in nodes if not op_word(node).silent]
    if [op_word(node).word for node in loud] != ["mul", "sum", "mul", "sub"]:
        return None
    product, total, scaled, result = loud
    weights = {arg for arg in product.args if isinstance(arg, fx.Node)} & set(scaled.args)
    is_softmax = all(provenance_of(node).differentiates for node in loud) and len(weights) == 1
    is_softmax = is_softmax and total.args[0] is product and total in scaled.args
    return "d_softmax" if is_softmax and result.args[:2] == (product, scaled) else None


def _of_sum(plan: KernelPlan) -> str | None:
    """``channel_sum``: over what stands around the channels."""
    n_axes = sum(len(value.axes) for value in plan.body if isinstance(value, Reduce))
    return "column_sum" if plan.schedule.is_down_columns else "channel_sum" if n_axes > 1 else None


def _is_scaled(node: fx.Node) -> bool:
    """Whether a node of a derivative multiplies by a number that the forward multiplied by."""
    origin = provenance_of(node)
    is_of_none = bool(origin.differentiates) and not origin.differentiated
    return is_of_none and aten_name(node) == "mul" and isinstance(node.args[-1], int | float)


def _parameter_word(origin: Provenance) -> str:
    """``weight``, of the gradient of a layer's weight."""
    leaf = origin.gradient_of.rpartition("_")[2]
    return leaf if leaf in ("weight", "bias") else ""
