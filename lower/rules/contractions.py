"""Rules on one contraction: a sum of products, and told alike as loops and as a library call between nests."""

from __future__ import annotations

from collections.abc import Iterator

from longhand.lower.ir import (
    Contraction,
    Extern,
    Load,
    Nest,
    Pointwise,
    PointwiseOp,
    Reduce,
    ReduceOp,
    Store,
    arguments,
    domains,
)
from longhand.lower.rules.breaches import PlanRule, RuleBreach, Surroundings, step_words
from longhand.lower.rules.nests import nest_faults, view_faults


def contraction_faults(step: Contraction, around: Surroundings) -> Iterator[RuleBreach]:
    """Breaches by a contraction."""
    loops_are_right = True
    for fault in nest_faults(step.loops, around):
        loops_are_right = False
        yield fault
    for part in step.steps:
        yield from view_faults(part, around) if isinstance(part, Extern) else nest_faults(part, around)
    if loops_are_right:
        yield from (RuleBreach(PlanRule.PRODUCTS, step_words(step), what) for what in _breaches(step))


def _breaches(step: Contraction) -> Iterator[str]:
    sums = [value for value in step.body if isinstance(value, Reduce)]
    if len(sums) != 1 or sums[0].op is not ReduceOp.SUM:
        yield "its body has not one sum"
        return
    product = step.body[sums[0].arg]
    if not isinstance(product, Pointwise) or product.op is not PointwiseOp.MUL:
        yield "what it sums is no product"
        return
    names = [axis.name for axis in step.axes]
    kept = names[: len(names) - len(step.over)]
    if set(names[len(kept) :]) != set(step.over):
        yield "the axes that it sums over are not its last"
    spans = domains(step.body)
    for position, value in enumerate(step.body):
        if isinstance(value, Store) and spans[position] != set(kept):
            yield f"{value.buffer} is not stored once for each sum"
    late = _after(step)
    if any(isinstance(step.body[position], Store) for position in set(range(len(step.body))) - late):
        yield "it stores what is no part of the sum"
    yield from _differences(step)


def _after(step: Contraction) -> set[int]:
    """The positions of what depends on the sum."""
    positions = {step.sum}
    for position, value in enumerate(step.body):
        if not positions.isdisjoint(arguments(value)):
            positions.add(position)
    return positions


def _differences(step: Contraction) -> Iterator[str]:
    """Where the loops do something else than the call and its nests."""
    if len(step.call.outputs) != 1 or step.call.mutates:
        yield "its call does more than to make one result"
    reads, writes = _outside(step)
    read = {value.buffer for value in step.body if isinstance(value, Load)}
    written = {value.buffer for value in step.body if isinstance(value, Store)}
    if read != reads:
        yield f"its loops read {sorted(read)}, its steps {sorted(reads)}"
    if written != writes:
        yield f"its loops write {sorted(written)}, its steps {sorted(writes)}"
    for nest in (*step.before, *step.after):
        assert isinstance(nest, Nest)
        if any(isinstance(value, Reduce) for value in nest.body):
            yield "a nest of it is not element by element"


def _outside(step: Contraction) -> tuple[set[str], set[str]]:
    """The buffers that its steps read and write, without those that one hands on to another."""
    reads: set[str] = set()
    writes: set[str] = set()
    for part in step.steps:
        if isinstance(part, Extern):
            reads |= {*(view.buffer for view in part.views()), *part.measured}
            writes |= {name for name in (*part.outputs, *part.mutates) if name}
        else:
            reads |= {value.buffer for value in part.body if isinstance(value, Load)}
            writes |= {value.buffer for value in part.body if isinstance(value, Store)}
    stored = {value.buffer for value in step.body if isinstance(value, Store)}
    return reads - (writes - stored), writes & stored
