"""What tells a kernel from others of the same math: in its plan, and in the users' words that all calls share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import torch
from torch import fx

from longhand.capture.graph import GradientPart, Role
from longhand.lower.ir import Constant, Load, Pointwise, PointwiseOp, Reduce, Scalar, Store, arguments
from longhand.schedule.names.meanings.made_names import is_telling
from longhand.schedule.names.operation_names import (
    aten_name,
    is_formula,
    is_normalizing,
    op_word,
    provenance_of,
    spelled,
)
from longhand.schedule.names.result_names import STATISTIC_WORDS
from longhand.schedule.names.schedule_names import words_of
from longhand.schedule.names.shared.callers import Callers
from longhand.schedule.names.words import (
    GradientWord,
    identifier,
    reworded,
    undifferentiated,
    without_counter,
)
from longhand.schedule.plan import Access, KernelPlan, Pointer, Product

_OF_CODE = frozenset({"strided", "flat", "masked", "partial", "by_row", "by_col"})
_KEEP_MASK = "keep_mask"
_MOST_PARTS = 2  # of the word for what is kept
_DTYPES = {
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.int64: "int64",
    torch.int32: "int32",
    torch.int16: "int16",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.bool: "bool",
}


def plainness(plan: KernelPlan) -> tuple[bool, int, int, bool, bool, int]:
    """Of kernels of the same math the one that makes and reads least has the plain name, and others say what more.

    Of these the one that is for any number of rows, and the one to which every tensor lies along most axes.
    """
    n_read = sum(pointer.access is Access.READ for pointer in plan.pointers)
    n_left_out = sum(len(plan.axes) - len(steps) for steps in walked(plan, Load))
    is_of_few = _is_of_few_rows(plan)
    return _reads_parts(plan), n_stores(plan), n_read, _moves_axes(plan), is_of_few, n_left_out


def differences(plan: KernelPlan, callers: Callers, other: KernelPlan, others: Callers) -> Iterator[str]:
    """What a kernel does beside what the one does that has the plain name, in words that say it.

    Args:
        plan: The kernel.
        callers: Its calls.
        other: The one with the plain name.
        others: The calls of that.
    """
    if _keeps_forward(plan, callers) and not _keeps_forward(other, others):
        yield "recomputed"  # what the forward pass made, for other derivatives
    if _n_summands(plan, callers) > _n_summands(other, others) or _n_added(plan) > _n_added(other):
        yield "of_sum"  # it adds up what several users of a value give it
    if other.schedule.is_down_columns and _is_of_few_rows(plan) > _is_of_few_rows(other):
        yield words_of(plan).adjective
    if plan.schedule.is_down_columns:
        yield from _normalized_beside(callers, others)
    yield from _formulas_beside(callers, others)
    if _reads_parts(plan) and not _reads_parts(other):
        yield "packed"  # what others are given side by side lies in one tensor
    dtypes = _dtypes(plan, Access.WRITE) - _dtypes(other, Access.WRITE)
    if dtypes:
        yield (
            _KEEP_MASK
            if dtypes == {"bool"} and _stores_mask(plan, callers)
            else f"to_{'_'.join(sorted(dtypes))}"
        )
    if dtypes := _dtypes(plan, Access.READ) - _dtypes(other, Access.READ):
        if _n_gathers(plan) > _n_gathers(other):
            yield "gathered"  # what whole numbers say
        else:
            yield "masked" if dtypes == {"bool"} else f"of_{'_'.join(sorted(dtypes))}"
    if _repeats(plan) and not _repeats(other):
        yield "repeated"
    if _transposes(plan) > _transposes(other) or _moves_axes(plan) > _moves_axes(other):
        yield "transposed"


def _is_of_few_rows(plan: KernelPlan) -> bool:
    """Whether a kernel goes down columns of which each is one thread's: there are few rows."""
    return plan.schedule.is_down_columns and not words_of(plan).is_best


def _stores_mask(plan: KernelPlan, callers: Callers) -> bool:
    """Whether a kernel stores where the derivative of something goes on."""
    words, given = callers.first.words, callers.first.launch.buffers
    stored = (b for b, p in zip(given, passed(plan), strict=True) if p.access is not Access.READ)
    return any(words.provenance(words.origins.node_of(buffer)).differentiates for buffer in stored)


def _formulas_beside(callers: Callers, others: Callers) -> Iterator[str]:
    """``gelu``, ``cat``: what a kernel does, forward or backward, and the one that has the plain name does not."""
    mine, theirs = ({*map(_work, one.first.nodes)} for one in (callers, others))
    yield from (word for word in dict.fromkeys(map(_work, callers.first.nodes)) if word in mine - theirs)


def _normalized_beside(callers: Callers, others: Callers) -> Iterator[str]:
    """``normalized``: what is summed up is normalized first, which the other one is given."""
    mine, theirs = (any(map(_normalizes, one.first.nodes)) for one in (callers, others))
    if mine and not theirs:
        yield Role.NORMALIZED.value


def _normalizes(node: fx.Node) -> bool:
    return is_normalizing(node) or provenance_of(node).role is Role.NORMALIZED


def _work(node: fx.Node) -> str:
    """The formula that a node computes or differentiates, or that it joins tensors; empty of anything else."""
    differentiated = spelled(provenance_of(node).differentiated)
    word = op_word(node).word
    if differentiated:  # a sum alone is that of a bias
        return GradientWord(differentiated) if is_formula(differentiated) and word != "sum" else ""
    if aten_name(node).endswith("_backward"):
        return GradientWord(undifferentiated(spelled(aten_name(node)))) if is_formula(word) else ""
    return word if is_formula(word) or word == "cat" else ""


def codes_apart(plan: KernelPlan, other: KernelPlan) -> Iterator[str]:
    """What the code of a kernel does that the code of the one with the plain name does not; where words are missing."""
    if _n_gathers(plan) > _n_gathers(other):
        yield "gathered"
    if _n_masks(plan) > 0 == _n_masks(other):
        yield "joined" if _picks(plan) else "padded"
    if _reduces(plan, PointwiseOp.ADD) and _reduces(other) and not _reduces(other, PointwiseOp.ADD):
        yield "of_sum"  # what it normalizes is a sum, of which others are given the result
    if _n_scalings(plan) > _n_scalings(other):
        yield "scaled"


def _keeps_forward(plan: KernelPlan, callers: Callers) -> bool:
    """Whether a kernel of a backward pass stores what is no gradient, nor a part of one."""
    words, given = callers.first.words, callers.first.launch.buffers
    origins = [words.provenance(name) for name in callers.first.launch.origins]
    stored = (b for b, p in zip(given, passed(plan), strict=True) if p.access is not Access.READ)
    is_backward = any(origin.differentiates for origin in origins)
    return is_backward and any(
        not words.provenance(name).differentiates and not words.provenance(name).gradient_of
        for name in stored
        if name in words.nodes
    )


def _n_added(plan: KernelPlan) -> int:
    """How many tensors a kernel adds up before it does anything else with them."""
    summands: list[int] = []
    for value in plan.body:
        is_sum = isinstance(value, Pointwise) and value.op is PointwiseOp.ADD
        parts = [summands[place] for place in arguments(value)] if is_sum else []
        summands.append(1 if isinstance(value, Load) else sum(parts) if all(parts) else 0)
    return max((count for count in summands if count > 1), default=0)


def _reduces(plan: KernelPlan, op: PointwiseOp | None = None) -> bool:
    """Whether a kernel reduces something; what it reduces first is the result of an op, if one is asked for."""
    reduced = next((plan.body[one.arg] for one in plan.body if isinstance(one, Reduce)), None)
    return reduced is not None and (op is None or (isinstance(reduced, Pointwise) and reduced.op is op))


def _n_kept_sums(plan: KernelPlan) -> int:
    """How many sums of two values a kernel stores and goes on with."""
    used = Counter(place for one in plan.body if not isinstance(one, Store) for place in arguments(one))
    stored = ((one.value, plan.body[one.value]) for one in plan.body if isinstance(one, Store))
    return sum(
        bool(used[place]) and isinstance(value, Pointwise) and value.op is PointwiseOp.ADD
        for place, value in stored
    )


def _n_gathers(plan: KernelPlan) -> int:
    return sum(isinstance(value, Load) and bool(value.index.values) for value in plan.body)


def _n_masks(plan: KernelPlan) -> int:
    return sum(isinstance(value, Load) and value.mask is not None for value in plan.body)


def _picks(plan: KernelPlan) -> bool:
    """Whether by the condition of something that it reads it takes that or something else: tensors are joined."""
    masks = {value.mask for value in plan.body if isinstance(value, Load)} - {None}
    return any(
        isinstance(value, Pointwise) and value.op is PointwiseOp.WHERE and value.args[0] in masks
        for value in plan.body
    )


def _n_scalings(plan: KernelPlan) -> int:
    """How often a kernel multiplies by a number that is no part of a formula's, as a norm's weights are."""
    return sum(
        isinstance(value, Pointwise)
        and value.op is PointwiseOp.MUL
        and any(isinstance(plan.body[place], Constant | Scalar) for place in value.args)
        for value in plan.body
    )


def kept_apart(plan: KernelPlan, callers: Callers, other: KernelPlan, others: Callers) -> Iterator[str]:
    """``keep_rstd``, ``sums``: what a kernel stores beside what both are for; one word, however much that is.

    Args:
        plan: The kernel.
        callers: Its calls.
        other: The one with the plain name.
        others: The calls of that.
    """
    written = [place for place, p in enumerate(passed(plan)) if p.access is not Access.READ]
    if len(written) <= _n_written(other):
        return
    words = _words_beside(callers, written, others, other)
    if words and all(word.rpartition("_")[2] in STATISTIC_WORDS for word in words):
        yield "keep_statistics" if len(words) > 1 else f"keep_{words[0]}"
    is_backward = any(provenance_of(node).differentiates for node in callers.first.nodes)
    is_sum = any(isinstance(value, Reduce) for value in plan.body)
    if is_backward and is_sum and _n_vectors(plan) > _n_vectors(other):
        yield "sums"  # of gradients, for weights
    kept = [word.split("_") for word in words if not isinstance(word, GradientWord)]
    yield from (f"keep_{'_'.join(parts[-_MOST_PARTS:])}" for parts in kept)
    if _n_kept_sums(plan) > _n_kept_sums(other):
        yield "keep_sum"


def _n_vectors(plan: KernelPlan) -> int:
    """How many results of a kernel have fewer axes than it walks."""
    return sum(len(steps) < len(plan.axes) for steps in walked(plan, Store))


def _n_summands(plan: KernelPlan, callers: Callers) -> int:
    """How many parts of gradients a kernel reads."""
    words, given = callers.first.words, callers.first.launch.buffers
    read = (buffer for buffer, p in zip(given, passed(plan), strict=True) if p.access is Access.READ)
    return sum(words.provenance(buffer).part is GradientPart.SUMMAND for buffer in read)


def _words_beside(callers: Callers, places: list[int], others: Callers, other: KernelPlan) -> list[str]:
    """The words of what a kernel makes, and another one does not; those that say what it is."""
    theirs = {
        word
        for place, pointer in enumerate(passed(other))
        if pointer.access is not Access.READ
        for word in others.candidates(place)
    }
    made = [callers.first.words.nodes.get(buffer) for buffer in callers.first.launch.buffers]
    words = [
        Role.NORMALIZED.value if (node := made[place]) is not None and is_normalizing(node) else word
        for place in places
        for word in callers.candidates(place)[:1]
        if word not in theirs
    ]
    plain = {
        reworded(word, lambda of: identifier(without_counter(of))): identifier(undifferentiated(word))
        for word in words
    }
    said = [word for word, of in plain.items() if is_telling(of)]
    return said or [word for word, of in plain.items() if "_" in of]  # hidden_states, but not out


def _reads_parts(plan: KernelPlan) -> bool:
    """Whether a kernel reads several parts of one tensor, at offsets that it is told."""
    offsets = {parameter.pointer for parameter in plan.ints if parameter.axis is None}
    n_loads = Counter(value.buffer for value in plan.body if isinstance(value, Load))
    return any(n_loads[pointer] > 1 for pointer in offsets if pointer is not None)


def walked(plan: KernelPlan, kind: type[Load] | type[Store]) -> list[dict[str, Product]]:
    """For each access of a kernel: by axis how far it steps along that."""
    return [
        dict(plan.addresses[at].axes)
        for at, value in enumerate(plan.body)
        if isinstance(value, kind) and at in plan.addresses
    ]


def _repeats(plan: KernelPlan) -> bool:
    """Whether a kernel writes everything several times: along an axis that nothing it reads has."""
    read = {axis for steps in walked(plan, Load) for axis in steps}
    stored = walked(plan, Store)
    return any(axis not in read for axis in stored[0]) if stored and read else False


def _transposes(plan: KernelPlan) -> bool:
    """Whether no tensor that a kernel reads lies along the axis along which it writes."""
    along = [{axis for axis, factors in steps.items() if factors == ()} for steps in walked(plan, Load)]
    written = [{axis for axis, factors in steps.items() if factors == ()} for steps in walked(plan, Store)]
    return bool(written and any(along)) and all(
        axes and axes.isdisjoint(read) for axes in written for read in along
    )


def _moves_axes(plan: KernelPlan) -> bool:
    """Whether the axes of what a kernel writes stand in another order in what it reads most of: heads, then tokens."""
    read, written = (
        [sorted(steps, key=lambda axis: -len(steps[axis])) for steps in walked(plan, kind)]
        for kind in (Load, Store)
    )
    most = max(read, key=len, default=[])
    orders = [
        ([axis for axis in most if axis in one], [axis for axis in one if axis in most]) for one in written
    ]
    return any(len(both) > 1 and both != order for both, order in orders)


def n_stores(plan: KernelPlan) -> int:
    return sum(isinstance(value, Store) for value in plan.body)


def _n_written(plan: KernelPlan) -> int:
    return sum(pointer.access is not Access.READ for pointer in passed(plan))


def _dtypes(plan: KernelPlan, access: Access) -> set[str]:
    return {
        _DTYPES.get(pointer.dtype, "")
        for pointer in plan.pointers
        if not pointer.scratch and (pointer.access is Access.READ) == (access is Access.READ)
    } - {""}


def qualifiers(plan: KernelPlan, callers: Callers) -> Iterator[str]:
    """What may tell this kernel from another of the same math, best first: of the users' words those of every call."""
    words, launch = callers.first.words, callers.first.launch
    places = [place for place, p in enumerate(passed(plan)) if p.access is not Access.READ]
    if all(isinstance(value, Load | Store) for value in plan.body) and words.weights:
        yield from (
            word for place in places for word in callers.candidates(place)[:1]
        )  # of a copy: what it is of
    for place in reversed(places):
        for word in callers.candidates(place)[:1]:  # what it makes the gradient of
            if isinstance(word, GradientWord) and is_telling(undifferentiated(word)):
                yield identifier(without_counter(undifferentiated(word)))
    if words_of(plan).is_best:
        yield words_of(plan).adjective
    made = [
        without_counter(identifier(words.provenance(launch.buffers[place]).local or ""))
        for place in reversed(places)
        if not words.provenance(launch.buffers[place]).differentiates
    ]
    made = [local for local in made if len(local) > 1 and callers.have_local(local)]
    yield from filter(is_telling, made)
    yield from made  # that its result is called hidden_states sets few kernels apart
    yield words_of(plan).adjective or ("strided" if plan.ints else "flat")
    if plan.ints:
        yield "strided"
    if any(isinstance(value, Load) and value.mask is not None for value in plan.body):
        yield "masked"
    if any(isinstance(value, Store) and value.mask is not None for value in plan.body):
        yield "partial"
    yield from _broadcasts(plan)


def words_of_code(plan: KernelPlan) -> frozenset[str]:
    """Those of a kernel's qualifiers that only say how its code looks."""
    walk = words_of(plan)
    return _OF_CODE if walk.is_best else _OF_CODE | {walk.adjective}


def passed(plan: KernelPlan) -> list[Pointer]:
    return [pointer for pointer in plan.pointers if not pointer.scratch]


def _broadcasts(plan: KernelPlan) -> Iterator[str]:
    """`by_row` or `by_col` where some tensor varies over only these, as the weights of every norm do."""
    if _reduces(plan):
        return
    rows = {axis.name for axis in plan.rows}
    cols = {axis.name for axis in plan.cols}
    for position, value in enumerate(plan.body):
        if isinstance(value, Load) and rows and cols:
            axes = {axis for axis, _ in plan.addresses[position].axes}
            if axes and axes <= rows:
                yield "by_row"
            elif axes and axes <= cols:
                yield "by_col"
