"""Names everything: a unit's plan (and the previous ledger) becomes `UnitNames`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import torch

from longhand.capture.graph import Provenance
from longhand.lower.ir import Extern, Pointwise, PointwiseOp
from longhand.schedule.layers.loops import arrange
from longhand.schedule.layers.saved_layers import SavedLayers
from longhand.schedule.modules.titles import told_module
from longhand.schedule.names.buffer_names import BufferNamer
from longhand.schedule.names.call_frames import is_derivative
from longhand.schedule.names.dimensions.axis_names import dimensions_of, name_axes
from longhand.schedule.names.dimensions.dimension_names import DimNamer
from longhand.schedule.names.kernel_names import kernel_scope, name_kernel
from longhand.schedule.names.layer_names import name_block
from longhand.schedule.names.meanings.number_parameters import (
    end_words,
    half_words,
    int_words,
    scalar_words,
)
from longhand.schedule.names.meanings.pairs import with_pairs, words_of_pairs
from longhand.schedule.names.meanings.parts import part_names
from longhand.schedule.names.number_names import constant_names
from longhand.schedule.names.shared.callers import Caller, Callers, SharedNames
from longhand.schedule.names.shared.function_variables import FunctionVariables
from longhand.schedule.names.shared.layer_results import NameLayer
from longhand.schedule.names.shared.statements import stated_origins
from longhand.schedule.names.shared.telling_apart import plainness
from longhand.schedule.names.shared.tensor_names import name_lists, name_pointers, pointers_of_lists
from longhand.schedule.names.unit_names import KernelNames, Ledger, Quote, UnitNames, pointer_word
from longhand.schedule.names.value_names import ValueNamer
from longhand.schedule.names.variables import name_variables
from longhand.schedule.names.words import (
    RESERVED_IN_KERNEL,
    KernelScope,
    Scope,
    as_gradient,
)
from longhand.schedule.plan import (
    KernelPlan,
    Launch,
    TargetFacts,
    UnitPlan,
    facts_of,
    flat_steps,
)

_MOST_QUOTES = 6
_MOST_OF_SEVERAL = 3  # functions' statements
# What the templates of kernels over lists bind themselves.
_LIST_WORDS_TEXT = (
    "tensor table block addresses first_chunk next first_block tensor_of_block n_chunks n_tensors"
)
_WORDS_OF_LISTS = tuple(_LIST_WORDS_TEXT.split())


def name_unit(
    plan: UnitPlan,
    ledger: Ledger | None = None,
    words: BufferNamer | None = None,
    dims: DimNamer | None = None,
    elsewhere: Mapping[str, tuple[KernelPlan, Callers]] = MappingProxyType({}),
) -> UnitNames:
    """Words for the whole unit. Kernels that `ledger` knows by key keep theirs.

    Args:
        plan: What is named.
        ledger: Names given before.
        words: The captured graph's; by default those that follow from it alone.
        dims: Words for dimensions, after which kernels call their axes.
        elsewhere: What another pass of the unit launches, by keys of the ledger: their names are taken.
    """
    words = BufferNamer(plan.program.graph, plan.program.buffers) if words is None else words
    facts = facts_of(plan.options.target)
    names = name_steps(plan, words)
    callers = callers_in(plan, words, dims, FunctionVariables.of(names.steps, words, names.buffers))
    return dataclasses.replace(names, kernels=name_kernels(plan.kernels, callers, facts, ledger, elsewhere))


def name_steps(plan: UnitPlan, words: BufferNamer, saved: frozenset[str] = frozenset()) -> UnitNames:
    """What a pass does, and the variables around layers; words for kernels are still missing.

    Args:
        plan: The pass.
        words: Its graph's.
        saved: Arguments that the backward pass reads.
    """
    steps = arrange(plan, words)
    return UnitNames({}, name_variables(plan, words, steps, saved, _inside(words)), {}, steps)


def _inside(words: BufferNamer) -> NameLayer:
    return lambda loop, around: name_block(loop, words, around=around)


def callers_in(
    plan: UnitPlan,
    words: BufferNamer,
    dims: DimNamer | None = None,
    variables: FunctionVariables | None = None,
) -> dict[str, Callers]:
    """By kernel: its calls in a pass.

    Args:
        plan: The pass.
        words: Its graph's.
        dims: Words for dimensions.
        variables: What stands in the calls.
    """
    callers: dict[str, list[Caller]] = {}
    by_library = frozenset(call.origin for call in externs(plan) if call.origin)
    for launch in launches(plan):
        caller = Caller(launch, words, plan.buffers, dims, variables, by_library)
        callers.setdefault(launch.kernel, []).append(caller)
    return {key: Callers(tuple(calls)) for key, calls in callers.items()}


_ONLY_OF_LOOPS = {"place"}  # what kernels in C++ call the place of a largest element


def name_kernels(
    plans: Mapping[str, KernelPlan],
    callers: Mapping[str, Callers],
    facts: TargetFacts,
    ledger: Ledger | None = None,
    elsewhere: Mapping[str, tuple[KernelPlan, Callers]] = MappingProxyType({}),
) -> dict[str, KernelNames]:
    """The words of each kernel: those that all its callers share.

    Args:
        plans: The kernels.
        callers: By kernel: its calls, in the order of the pass; those of another pass come last.
        facts: Of the target.
        ledger: Names given before.
        elsewhere: What another pass of the unit launches, by keys of the ledger: their names are taken.
    """
    scope = kernel_scope()
    keys = [*sorted(elsewhere), *(key for key in plans if key not in elsewhere)]
    known = _claimed(ledger.kernels if ledger is not None else {}, keys, scope)
    kernels: dict[str, KernelNames] = {}
    named = {known[key].kernel: one for key, one in elsewhere.items() if key in known}
    for key in sorted(callers, key=lambda one: plainness(plans[one])):
        kernel, calls = plans[key], callers[key]
        old = known.get(key)
        kept = _fitted(old, kernel, calls) if old is not None else None
        if kept is not None and key in elsewhere:
            kernels[key] = kept
        elif kept is not None:
            kernels[key] = _with_current_quotes(kept, calls)
        else:
            named |= {names.kernel: (plans[other], callers[other]) for other, names in kernels.items()}
            name = old.kernel if old is not None else name_kernel(kernel, calls, scope, named)
            kernels[key] = _name_kernel_words(kernel, calls, name, facts.prints_blocks)
    return {key: kernels[key] for key in callers}


def _claimed(known: Mapping[str, KernelNames], keys: Sequence[str], scope: Scope) -> dict[str, KernelNames]:
    """What a ledger says of these kernels. Each name is one kernel's, whatever a merge of two ledgers made of them.

    Args:
        known: The ledger.
        keys: The kernels of today; of two that have one name the first keeps it.
        scope: Is told the names.
    """
    claimed_names: dict[str, KernelNames] = {}
    for key in keys:
        if key in known and scope.is_free(known[key].kernel):
            claimed_names[key] = known[key]
            scope.take(known[key].kernel)
    return claimed_names


def with_records(
    plan: UnitPlan,
    names: UnitNames,
    words: BufferNamer,
    records: Sequence[SavedLayers],
    saved: frozenset[str],
) -> UnitNames:
    """The same words in a unit whose layers save records for their backward pass."""
    if not records:
        return names
    steps = arrange(plan, words, records)
    return dataclasses.replace(
        names, steps=steps, buffers=name_variables(plan, words, steps, saved, _inside(words))
    )


def launches(plan: UnitPlan) -> Iterator[Launch]:
    """Every launch of a unit in order, those in repeats included."""
    yield from (step for step in flat_steps(plan.steps) if isinstance(step, Launch))


def externs(plan: UnitPlan) -> Iterator[Extern]:
    """Every library call of a unit in order, those in repeats included."""
    yield from (step for step in flat_steps(plan.steps) if isinstance(step, Extern))


def quotes_of(origins: tuple[str, ...], words: BufferNamer) -> tuple[Quote, ...]:
    """The user's statements behind these nodes, each once, in order; the module, where one does not tell it."""
    stated: list[Provenance] = [words.provenance(one) for one in stated_origins(origins, words.nodes)]
    told = {(one.qualname, one.statement) for one in stated if not told_module(one)}
    quotes: dict[Quote, None] = {}
    for where in stated:
        said = (where.qualname, where.statement)
        if where.statement:
            quotes[Quote(*said) if said in told else Quote(where.qualname, told_module(where))] = None
    return tuple(quotes)


def _fitted(names: KernelNames, kernel: KernelPlan, callers: Callers) -> KernelNames | None:
    """A ledger's words for a kernel of the same key, whose buffers the user may call otherwise by now.

    None if they do not fit it: the lock was edited. What is a gradient is told by that again, not by its letters.
    """
    if (
        len(names.pointers) != len(kernel.pointers)
        or len(names.axes) != len(kernel.axes)
        or len(names.ints) != len(kernel.ints)
        or set(names.scalars) != {scalar.position for scalar in kernel.scalars}
        or len(names.lists) != sum(pointer.many for pointer in kernel.pointers)
        or any(not 0 <= position < len(kernel.body) for position in (*names.values, *names.constants))
    ):
        return None
    words = zip(kernel.pointers, names.pointers.values(), strict=True)
    passed = enumerate(pointer.name for pointer in kernel.pointers if not pointer.scratch)
    gradients = {name for place, name in passed if callers.are_gradients(place)}
    return dataclasses.replace(
        names,
        pointers={p.name: as_gradient(word) if p.name in gradients else word for p, word in words},
        axes={axis.name: word for axis, word in zip(kernel.axes, names.axes.values(), strict=True)},
        ints={p.name: word for p, word in zip(kernel.ints, names.ints.values(), strict=True)},
        lists={p.name: word for p, word in zip(pointers_of_lists(kernel), names.lists.values(), strict=True)},
    )


def _with_current_quotes(old: KernelNames, callers: Callers) -> KernelNames:
    """The old words; the old quotes too, as long as the user's code holds them, whatever its locals are called."""
    current = {
        Quote(quote.qualname, caller.words.renamed.statement(quote.qualname, quote.statement))
        for caller in callers.every
        for quote in quotes_of(caller.launch.origins, caller.words)
    }
    if old.quotes and all(quote in current for quote in old.quotes):
        return old
    return dataclasses.replace(old, quotes=_chosen_quotes(callers.first))


def _chosen_quotes(caller: Caller) -> tuple[Quote, ...]:
    quotes = quotes_of(caller.launch.origins, caller.words)
    if len({one.qualname for one in quotes}) > 1 and len(quotes) > _MOST_OF_SEVERAL:  # how each function ends
        origins = (caller.words.nodes.get(one) for one in caller.launch.origins)
        is_backward = any(node is not None and is_derivative(node) for node in origins)
        ends = {one.qualname: one for one in (reversed(quotes) if is_backward else quotes)}
        quotes = tuple(one for one in quotes if one in ends.values())
    return quotes if len(quotes) <= _MOST_QUOTES else (*quotes[: _MOST_QUOTES - 1], quotes[-1])


def _not_called(kernel: KernelPlan) -> set[str]:
    """Names of functions that are free for values: ``cos`` and ``sin`` of rotary positions.

    C++ calls a function of floats ``cosf``, one of doubles ``cos``, and none of the two for another operation.
    """
    doubles = {
        value.op for value in kernel.body if isinstance(value, Pointwise) and value.dtype is torch.float64
    }
    return {op.value for op in (PointwiseOp.COS, PointwiseOp.SIN)} - {op.value for op in doubles}


def _name_kernel_words(kernel: KernelPlan, callers: Callers, name: str, prints_blocks: bool) -> KernelNames:
    kernel = with_pairs(kernel, callers)
    free = _not_called(kernel) | (_ONLY_OF_LOOPS if prints_blocks else set())
    scope = KernelScope(RESERVED_IN_KERNEL - free)
    scope.take(name)
    if kernel.schedule.is_over_lists:
        for word in _WORDS_OF_LISTS:
            scope.take(word)
    pointers = name_pointers(kernel, callers, scope)
    lists = name_lists(kernel, pointers, scope)
    axes = name_axes(kernel, scope, dimensions_of(kernel, callers))
    parts = words_of_pairs(kernel, callers, pointers) | part_names(kernel, callers)
    ints = {
        parameter.name: scope.pick(int_words(kernel, parameter.name, pointers, axes, parts))
        for parameter in kernel.ints
    }
    ends = end_words(kernel, pointers)
    scalars = {
        scalar.position: scope.pick(
            [
                ends.get(scalar.position, ""),
                *half_words(kernel, scalar.position, axes),
                scalar.name or "",
                *scalar_words(kernel, scalar.position),
            ]
        )
        for scalar in kernel.scalars
    }
    if prints_blocks:
        # Pointers are printed with a suffix, so their words are free for what is loaded.
        for word in (*pointers.values(), *lists.values()):
            scope.release(word)
            scope.take(pointer_word(word))
    shared = SharedNames(callers)
    values = ValueNamer(kernel, shared, pointers, scope, prints_blocks, parts).name_values()
    return KernelNames(
        kernel=name,
        title="",
        quotes=_chosen_quotes(callers.first),
        pointers=pointers,
        axes=axes,
        ints=ints,
        scalars=scalars,
        values=values,
        lists=lists,
        constants=constant_names(kernel, callers),
    )
