"""What a kernel computes, as a formula for the first line of its file: ``weights = exp(scores) / sum(exp(scores))``."""

from __future__ import annotations

from longhand.emit.names.buffer_names import BufferWords
from longhand.emit.names.kernel_purpose import KernelPurpose, purpose_of
from longhand.emit.names.operation_names import derivative_word, provenance_of
from longhand.emit.names.people_names import frame_of_backward, is_nearly_whole_backward
from longhand.emit.names.schedule_words import words_of
from longhand.emit.names.unit_names import KernelNames
from longhand.emit.names.words import listed, plural
from longhand.emit.text.operation_formula import op_formula
from longhand.emit.text.reference_joins import find_joins
from longhand.emit.text.value_formula import formula_in_steps, value_formula
from longhand.lower.ir import Load, Store
from longhand.schedule.plan import Access, KernelPlan

_WIDEST = 102  # of a file's first line: the kernel's name and the title
_TWO_LINES = 200
_THREE_LINES = 300
_FIVE_LINES = 460  # rather than no formula
_MUCH_SHORTER = 0.7  # of the length: then the user's operations say it better than their arithmetic


def title_of(plan: KernelPlan, names: KernelNames, words: BufferWords) -> str:
    """What the kernel computes, in one line."""
    purpose = purpose_of(plan, words)
    if purpose is KernelPurpose.TO_CHANNELS_LAST and len(plan.pointers) == 2:
        source, made = (names.pointers[pointer.name] for pointer in plan.pointers)
        return f"{made} = {source} with its channels last in memory{_walk(plan, names)}."
    if purpose is KernelPurpose.FILL_PADDING:
        padded = listed(names.pointers[pointer.name] for pointer in plan.pointers)
        return f"writes zeros to the padding of {padded}{_place(plan, names)}."
    if purpose is KernelPurpose.BATCH_STATISTICS:
        return "each channel's mean and 1 / deviation, from those of its pieces; the running ones follow."
    return _padded(plan, names, words) or _computed(plan, names, words)


def _place(plan: KernelPlan, names: KernelNames) -> str:
    """``, n_cols columns from unscaled_d_logits_offset on``: where what is filled lies in each row."""
    starts = [names.ints[parameter.name] for parameter in plan.ints if parameter.axis is None]
    if len(starts) != 1 or len(plan.cols) != 1:
        return ""
    axis = names.axes[plan.cols[0].name]
    return f", {axis.size} {'columns' if axis.index == 'col' else plural(axis.index)} from {starts[0]} on"


def _padded(plan: KernelPlan, names: KernelNames, words: BufferWords) -> str:
    """``padded_weight = token_embedding, with zeros after its n_filled rows.``"""
    joins, _ = find_joins(plan, names, words)
    stores = [value for value in plan.body if isinstance(value, Store)]
    join = joins.get(stores[0].value) if len(stores) == 1 else None
    if join is None or join.fill != 0 or len(join.pieces) != 1 or join.ranges[0].start is not None:
        return ""
    load, end = plan.body[join.pieces[0]], join.ranges[0].end
    if not isinstance(load, Load) or end is None:
        return ""
    made, source = names.pointers[stores[0].buffer], names.pointers[load.buffer]
    filled, axis = names.scalars[end], names.axes[join.axis]
    return f"{made} = {source}, with zeros after its {filled} {plural(axis.index)}."


def _computed(plan: KernelPlan, names: KernelNames, words: BufferWords) -> str:
    """The results as formulas of values, else of the user's operations, else the operations in words."""
    how = _walk(plan, names)
    exact, coarse = value_formula(plan, names, words), op_formula(plan, names, words)
    is_coarser = coarse and exact and len(coarse) < _MUCH_SHORTER * len(exact)
    for room in (_WIDEST - len(names.kernel), _TWO_LINES - len(names.kernel)):
        for formula in (coarse, exact) if is_coarser else (exact, coarse):
            if formula and len(formula) <= room:
                return f"{formula}{how}." if len(formula) + len(how) <= room else f"{formula}."
    if plan.schedule.is_over_lists:
        return f"{_update_in_words(plan, names)}."
    stepwise = formula_in_steps(plan, names, words)
    backward = _differentiated(plan, words)
    room = _THREE_LINES if backward else _FIVE_LINES
    if stepwise and len(stepwise) + len(names.kernel) <= room:
        return f"{stepwise}."
    of = f"the backward pass of {_some(backward)}: " if backward else ""
    return f"{of}{_in_words(plan, names)}{how}."


def _differentiated(plan: KernelPlan, words: BufferWords) -> list[str]:
    """What a kernel is the backward pass of, in the field's words, else the user's: ``layer norm``, LlamaRMSNorm."""
    nodes = [words.nodes[name] for name in plan.origins if name in words.nodes]
    origins = [provenance_of(node) for node in nodes]
    derived = dict.fromkeys(derivative_word(origin) for origin in origins if origin.differentiated)
    if derived:
        return [word.removeprefix("d_").replace("_", " ") for word in derived]
    frame = frame_of_backward(nodes)
    if frame is None or not is_nearly_whole_backward(frame, nodes, words.nodes):
        return []
    return [frame[0].removesuffix(".forward").rpartition(".")[2]]


def _in_words(plan: KernelPlan, names: KernelNames) -> str:
    """``features from conv2 and residual``, where a formula would be too long to read."""
    bodies = [value for value in plan.body if isinstance(value, Load | Store)]
    written = dict.fromkeys(names.pointers[v.buffer] for v in bodies if isinstance(v, Store))
    whole = max(
        (len(plan.addresses[p].axes) for p, v in enumerate(plan.body) if isinstance(v, Load)), default=0
    )
    read = dict.fromkeys(
        names.pointers[value.buffer]
        for position, value in enumerate(plan.body)
        if isinstance(value, Load) and len(plan.addresses[position].axes) == whole
    )
    given = listed(list(read)[:3])
    source = f" from {given}" if given else ""
    return f"{_some(list(written))}{source}"


def _some(words: list[str]) -> str:
    """All of a few; of many the first two, and how many there are besides."""
    return listed(words) if len(words) <= 4 else f"{words[0]}, {words[1]} and {len(words) - 2} more"


def _update_in_words(plan: KernelPlan, names: KernelNames) -> str:
    """``exp_avg, param and exp_avg_sq from these and grad, for all tensors of the lists``"""
    many = [pointer for pointer in plan.pointers if pointer.many]
    written = [names.pointers[pointer.name] for pointer in many if pointer.access is not Access.READ]
    read = [names.pointers[pointer.name] for pointer in many if pointer.access is Access.READ]
    given = ["these"] if any(pointer.access is Access.READ_WRITE for pointer in many) else []
    source = f" from {listed([*given, *read])}" if [*given, *read] else ""
    return f"{listed(written)}{source}, for all tensors of the lists"


def _walk(plan: KernelPlan, names: KernelNames) -> str:
    schedule = plan.schedule
    if schedule.is_row_wise:
        row = names.axes[plan.rows[0].name].index if len(plan.rows) == 1 else "row"
        return f", {row} by {row}" if plan.rows else ""
    if schedule.is_tiled:
        return ", in tiles" if plan.turned else ", in square tiles"
    walk = words_of(plan).walk
    return f", {walk}" if walk else ""
