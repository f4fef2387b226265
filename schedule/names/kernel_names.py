"""The names of kernels: the math, and where two kernels share it, what tells them apart."""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Iterator, Mapping

from torch import fx

from longhand.capture.graph import Provenance, Role
from longhand.lower.ir import Constant, Load, Pointwise, PointwiseOp, Store
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.dimensions.axis_names import dimensions_of
from longhand.schedule.names.kernel_purposes import KernelPurpose, purpose_of
from longhand.schedule.names.meanings.derivative_names import (
    is_mask,
    of_derivatives,
    of_norm_derivative,
    of_softmax_backward,
    of_summands,
)
from longhand.schedule.names.meanings.kernel_formulas import (
    heads_moved,
    name_in_tiles,
    name_of_more_than_copy,
    softmax_of_visible,
    sums_of_one,
)
from longhand.schedule.names.meanings.lengths import weight_norm
from longhand.schedule.names.operation_names import (
    field_word,
    is_formula,
    lists_ops,
    name_of_ops,
    op_word,
    provenance_of,
)
from longhand.schedule.names.people_names import (
    is_list_of_ops,
    is_understated,
    name_of_backward,
    name_of_beyond,
    name_of_copy,
    name_of_differentiated,
    name_of_formulas,
    name_of_most,
    name_of_people,
    name_of_small,
    name_of_target,
)
from longhand.schedule.names.result_names import STATISTIC_WORDS
from longhand.schedule.names.shared.callers import Caller, Callers
from longhand.schedule.names.shared.common_names import common_name
from longhand.schedule.names.shared.places_apart import layers_apart, places_apart
from longhand.schedule.names.shared.telling_apart import (
    codes_apart,
    differences,
    kept_apart,
    passed,
    qualifiers,
    words_of_code,
)
from longhand.schedule.names.shared.walks_apart import axes_apart, biases_apart, shapes_apart
from longhand.schedule.names.words import (
    RESERVED_IN_KERNEL,
    GradientWord,
    KernelScope,
    Scope,
    identifier,
    undifferentiated,
)
from longhand.schedule.plan import KernelPlan

_LONGEST = 40
_TYPE = re.compile(r"(^|_)(bf|fp|u?int)\d+$")
_WHOLE_FUNCTION = 3  # statements of a function that make its name a kernel's
_SAYS_LITTLE = frozenset(
    {"step", "update", "forward", "call", "f", "fn", "function", "inner", "loop", "foreach", "run", "main"}
)
_RESULTS = frozenset({Role.RSTD.value})  # what kernels are for is called so, and their results want the word
_LAYOUTS = frozenset({KernelPurpose.TO_CHANNELS_LAST.value, KernelPurpose.TO_CONTIGUOUS.value})
_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "scale", "power", "sqrt", "rsqrt", "neg", "reciprocal"})


def kernel_scope() -> Scope:
    """A scope for the names of a unit's kernels."""
    return KernelScope(RESERVED_IN_KERNEL | {"kernels", "runtime", "model", "check", "reference"})


def name_kernel(
    plan: KernelPlan, callers: Callers, scope: Scope, named: Mapping[str, tuple[KernelPlan, Callers]]
) -> str:
    """A free name for the kernel, taken from `scope`.

    Args:
        plan: The kernel.
        callers: Its calls.
        scope: The names of kernels so far.
        named: The kernels that have these names, with their calls.
    """
    for candidate in _candidates(plan, _computing_again(plan, callers) or callers, named):
        word = identifier(candidate).removesuffix("_kernel")  # so the device function of a file is called
        word = _without_loose_end(word[:_LONGEST]) if len(word) > _LONGEST else word
        if scope.is_free(word):
            return scope.take(word)
    raise AssertionError("unreachable: the last candidate holds the kernel's own key")


def _candidates(
    plan: KernelPlan, callers: Callers, named: Mapping[str, tuple[KernelPlan, Callers]]
) -> Iterator[str]:
    nodes = callers.first.nodes
    told = {_told(plan, caller) for caller in callers.told_apart}
    names = told if len(told) == 1 else {_without_people(plan, caller) for caller in callers.told_apart}
    # Of several formulas for one kernel the shortest; what is moved from where to where says more than that it is.
    base = min(names, key=lambda name: (name == "copy", len(name), name))
    if len(told) > 1 and (lists_ops(base) or is_understated(nodes)):
        base = common_name(callers, told) or base
    is_copy = base == "cat" or (base == "transpose" and "copy" in names)
    base = "copy" if is_copy and _keeps_rows(plan) else base
    if base in ("copy", "transpose"):
        base = heads_moved(plan, dimensions_of(plan, callers)) or base
    calls = [(caller.nodes, _stored(plan, caller), caller.words) for caller in callers.every]
    base = name_of_more_than_copy(name_of_target(base, calls) or base, plan)
    base = softmax_of_visible(base, plan)
    base = f"make_{base}" if base in _RESULTS else base
    if len(names) > 1 and not _LAYOUTS.isdisjoint(names):
        base = "transpose"  # to one layout in a call, from it in another
    if plan.schedule.is_over_lists:
        yield _of_update([callers.first.words.provenance(node.name) for node in nodes])
    yield base
    also = set(_of_itself(*named[base])) if base in named else set()
    further = _additions(plan, callers, named.get(base))
    if any(provenance_of(node).differentiates for node in nodes):
        further = [*map(undifferentiated, further)]
    said = [text for text in dict.fromkeys(further) if text and not _says_again(text, base)]
    # What is so of the other kernel, too, tells nothing apart: it comes last.
    further = [*(text for text in said if text not in also), *(text for text in said if text in also)]
    fitting = [text for text in further if len(base) + len(text) < _LONGEST]  # the formula stays whole
    for qualifier in (*fitting, *further):
        yield _joined(base, qualifier)
    for first in further:
        for second in further:
            if first != second:
                yield _joined(base, first, second)
    yield _joined("_".join(op_word(node).word for node in nodes if not op_word(node).silent)[:_LONGEST])
    yield _joined(base, f"v{plan.key[:4]}")


def _additions(plan: KernelPlan, callers: Callers, other: tuple[KernelPlan, Callers] | None) -> list[str]:
    """What may be said of a kernel beside what it computes, best first.

    Args:
        plan: The kernel.
        callers: Its calls.
        other: The kernel that has the plain name, with its calls, if there is one.
    """
    own = _of_itself(plan, callers)
    if other is None:
        return own
    against = (plan, callers, *other)
    code = words_of_code(plan)
    layers = _layers_of(plan, callers)  # which say nothing of the code
    return [
        *differences(*against),
        *codes_apart(plan, other[0]),
        *kept_apart(*against),
        *axes_apart(*against),
        *biases_apart(plan, callers, other[0]),
        *(word for word in own if word not in layers and word not in code),
        *(word for word in own if word in code and word not in layers),
        *shapes_apart(plan, other[0]),
        *places_apart(callers, other[1]),
        *layers,
    ]


def _of_itself(plan: KernelPlan, callers: Callers) -> list[str]:
    """What may be said of a kernel whatever the others are."""
    return [*qualifiers(plan, callers), *_layers_of(plan, callers)]


def _layers_of(plan: KernelPlan, callers: Callers) -> list[str]:
    """The layers that a kernel serves in every call; none whose formula it would seem to compute."""
    return [word for word in (*_layers(plan, callers), *layers_apart(callers)) if not is_formula(word)]


def _computing_again(plan: KernelPlan, callers: Callers) -> Callers | None:
    """The calls of a kernel of a backward pass that reads and stores no gradient, without what derivatives call it.

    It makes values of the forward pass again, the derivative's own ``normalized`` among them: a name with ``d_``
    would say that it differentiates. None of any other, as of a loss that makes its gradient at once, not yet scaled.
    """
    buffers = ((one.words, buffer) for one in callers.every for buffer in one.launch.buffers)
    if any(isinstance(next(words.candidates(buffer), None), GradientWord) for words, buffer in buffers):
        return None
    stored = ((one.words, buffer) for one in callers.every for buffer in _stored(plan, one))
    made = [words.nodes.get(words.origins.node_of(buffer)) for words, buffer in stored]
    values = [provenance_of(node) for node in made if node is not None and not is_mask(node)]
    if not values or any(one.is_of_gradient and not one.role for one in values):
        return None
    again = []
    for one in callers.every:
        sources = zip(one.launch.origins, one.sources, strict=True)
        origins = tuple(name for name, source in sources if not source.is_of_gradient)
        again.append(dataclasses.replace(one, launch=dataclasses.replace(one.launch, origins=origins)))
    return Callers(tuple(again)) if all(one.nodes for one in again) else None


def _says_again(text: str, base: str) -> bool:
    """Whether a name has a word already: ``scaled`` beside ``scale``; ``gemma2_rms_norm``, a class, ``rms_norm``.

    So is ``query_states`` in ``make_query_states``.
    """
    _, *tail = text.rsplit("_", 2)
    is_in = {text, text.removesuffix("d"), text.removesuffix("s")} & {*base.split("_")}
    is_part = f"_{text}_" in f"_{base}_"
    return bool(is_in) or is_part or (len(tail) > 1 and "_".join(tail) in base)


def _keeps_rows(plan: KernelPlan) -> bool:
    """Whether a kernel copies, and all that lies side by side in one tensor does in the other: rows change places."""
    if [type(value) for value in plan.body] != [Load, Store]:
        return False
    last = plan.cols[-1].name if plan.cols else None
    accesses = [plan.addresses[at] for at, value in enumerate(plan.body) if isinstance(value, Load | Store)]
    return all(dict(address.axes).get(last or "") == () for address in accesses)


def _told(plan: KernelPlan, caller: Caller) -> str:
    """The name of what a call computes: a formula's, or that of the people whose work it is."""
    nodes, words = caller.nodes, caller.words
    derivatives = of_derivatives(plan, caller, _stored(plan, caller))
    norm = of_norm_derivative(plan, nodes) if derivatives is None else None
    if (derivatives or norm) and (sums := sums_of_one(plan)):
        return _of_purpose(plan, caller) or sums
    if norm:
        return norm
    if derivatives is not None and not plan.schedule.is_down_columns:
        derivatives = (
            name_of_differentiated(nodes, _stored(plan, caller), words)
            or name_of_beyond(nodes, _stored(plan, caller), words)
            or derivatives
        )
    derivatives = derivatives or of_summands(nodes) or of_softmax_backward(nodes)
    derivatives = derivatives or weight_norm([node for node in nodes if not op_word(node).silent])
    backward = None if derivatives else name_of_backward(nodes, _stored(plan, caller), words)
    people = (
        name_of_people(nodes, _stored(plan, caller), words)
        if not (derivatives or backward) and is_list_of_ops(nodes)
        else None
    )
    told = derivatives or backward or people or name_of_small(nodes, words)
    base = told or _of_two_results(plan, caller) or name_of_ops(nodes)
    base = (name_of_copy(nodes, words) if base == "copy" else None) or base
    base = _of_many_results(plan, caller, base) or base
    says_little = lists_ops(base) or (told is None and is_understated(nodes))
    most = name_of_most(nodes, _stored(plan, caller), words) if says_little else None
    most = most or (name_of_formulas(nodes) if says_little else None)
    return _as_walked(plan, caller, most or base, is_told=bool(most or told))


def _without_people(plan: KernelPlan, caller: Caller) -> str:
    """The name of what a call computes, whoever wrote it: of a kernel that is not one function's alone."""
    nodes = caller.nodes
    derivatives = of_derivatives(plan, caller, _stored(plan, caller)) or of_norm_derivative(plan, nodes)
    if derivatives and (sums := sums_of_one(plan)):
        return _of_purpose(plan, caller) or sums
    derivatives = derivatives or of_summands(nodes) or of_softmax_backward(nodes)
    base = derivatives or _of_two_results(plan, caller) or name_of_ops(nodes)
    return _as_walked(plan, caller, base, is_told=bool(derivatives))


def _as_walked(plan: KernelPlan, caller: Caller, base: str, is_told: bool) -> str:
    """A name with what the kernel's walk adds to it, or what the kernel is for, which says more.

    Args:
        plan: The kernel.
        caller: Its call.
        base: The name.
        is_told: Whether it is more than operations.
    """
    if plan.schedule.is_down_columns and not is_told:
        base = re.sub(r"(^|_)(sum|mean|max|min|prod|var|std)$", r"\1column_\2", base)
        base = re.sub(r"_norm$", "_norm_columns", base)
    if plan.schedule.is_tiled and not is_told:
        base = name_in_tiles(base, caller.nodes)
    return _of_purpose(plan, caller) or _of_count(plan) or _of_padding(caller.nodes) or base


def _layers(plan: KernelPlan, callers: Callers) -> list[str]:
    """The layers whose gradients a kernel stores in every call, last first: ``bn1``."""
    caller = callers.first
    if of_derivatives(plan, caller, _stored(plan, caller)) is None:
        return []
    stored = {*_stored(plan, caller)}
    paths = [provenance_of(node).module for node in caller.nodes if node.name in stored]
    words = [path.rpartition(".")[2] for path in reversed(paths)]
    return [
        identifier(word)
        for word in dict.fromkeys(words)
        if word and not word.isdigit() and callers.have_module(word)
    ]


def _of_purpose(plan: KernelPlan, caller: Caller) -> str | None:
    """What a kernel is for in a call. A plain copy is called one only for or after a library call."""
    purpose = purpose_of(plan, caller.words, next(reversed(caller.launch.buffers), None))
    is_copy = purpose is KernelPurpose.TO_CONTIGUOUS and all(op_word(node).silent for node in caller.nodes)
    return purpose.value if purpose is not None and not is_copy else None


def _of_count(plan: KernelPlan) -> str | None:
    """``increment``: one whole number, a counter, is one more."""
    match plan.body:
        case (Load() as old, Constant(value=1), Pointwise(op=PointwiseOp.ADD) as new, Store() as store):
            is_counter = not plan.axes and old.buffer == store.buffer and not new.dtype.is_floating_point
            return "increment" if is_counter else None
    return None


def _of_two_results(plan: KernelPlan, caller: Caller) -> str | None:
    """``add_and_layer_norm``: a kernel that keeps the sum, too, which ``add_layer_norm`` does not."""
    nodes, stored = caller.nodes, _stored(plan, caller)
    places: dict[fx.Node | None, int] = {node: place for place, node in enumerate(nodes)}
    made = [places.get(_call_of(buffer, caller.words)) for buffer in stored]
    known = sorted(place for place in made if place is not None)
    if len(stored) != 2 or len(known) != 2:
        return None
    first, last = known
    before, after = nodes[: first + 1], nodes[first + 1 :]
    if first == last or any(all(op_word(node).silent for node in part) for part in (before, after)):
        return None
    if {provenance_of(nodes[first]).role, field_word(nodes[first])} & STATISTIC_WORDS:
        return None  # a number of each row, beside the rows
    name = f"{name_of_ops(before)}_and_{name_of_ops(after)}"
    return name if len(name) <= _LONGEST and name_of_ops(before) != name_of_ops(after) else None


def _call_of(buffer: str, words: BufferNamer) -> fx.Node | None:
    """The operation that makes a buffer: of one of several results, the one that makes all."""
    node = words.nodes.get(buffer)
    source = node.args[0] if node is not None and node.target is operator.getitem else node
    return source if isinstance(source, fx.Node) else None


def _of_many_results(plan: KernelPlan, caller: Caller, base: str) -> str | None:
    """``decay_and_step_size``: results that the user names, where arithmetic alone makes them."""
    stored = {*_stored(plan, caller)}
    results = [caller.words.provenance(node.name).local for node in caller.nodes if node.name in stored]
    named = [identifier(result) for result in dict.fromkeys(results) if result]
    if len(named) < 2 or not _ARITHMETIC.issuperset(base.split("_")) or base.count("_") < 2:
        return None
    name = f"{'_'.join(named[:-1])}_and_{named[-1]}"
    return name if len(name) <= _LONGEST else None


def _of_update(origins: list[Provenance]) -> str:
    """``adamw``: the function most of whose statements a kernel over lists does; empty where its name says little."""
    statements: dict[str, set[str]] = {}
    for origin in origins:
        statements.setdefault(origin.qualname.rpartition(".")[2], set()).add(origin.statement)
    function = max(statements, key=lambda name: len(statements[name]), default="")
    word = re.sub(r"^(multi|single)_tensor_", "", identifier(function))
    is_telling = len(statements.get(function, ())) >= _WHOLE_FUNCTION and word not in _SAYS_LITTLE
    return word if is_telling else ""


def _of_padding(nodes: list[fx.Node]) -> str | None:
    """``pad_head``: a weight that longhand pads for the layer of that name."""
    layer = next((one.module.rpartition(".")[2] for one in map(Provenance.of, nodes) if one.remark), "")
    is_pad = len(nodes) == 1 and op_word(nodes[0]).word == "pad"  # no bias that is added apart
    return f"pad_{identifier(layer)}" if is_pad and layer and not layer.isdigit() else None


def _stored(plan: KernelPlan, caller: Caller) -> list[str]:
    """What a call writes, in the order of the stores."""
    given = dict(zip((pointer.name for pointer in passed(plan)), caller.launch.buffers, strict=True))
    return [given[value.buffer] for value in plan.body if isinstance(value, Store) and value.buffer in given]


def _without_loose_end(name: str) -> str:
    """A name that was cut, without the ``_and`` or ``_d`` that it may end in now."""
    return re.sub(r"(_+(and|with|of|to|d)?)+$", "", name)


def _joined(base: str, *qualifiers: str) -> str:
    """The parts joined, the base shortened by whole words where needed."""
    tail = "_".join(qualifiers)
    room = _LONGEST - len(tail) - 1
    parts = base.split("_")
    while len(parts) > 1 and len("_".join(parts)) > room:
        parts.pop()
    head = "_".join(parts)[: max(room, 1)]
    head = _without_loose_end(head) if head != base else head
    # A name that ended in a type's number would look like one of many: bf16_add.
    ordered = (tail, head) if _TYPE.search(tail) else (head, tail)
    return "_".join(part for part in ordered if part)
