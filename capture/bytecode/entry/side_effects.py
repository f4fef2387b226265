"""What captured code changed in objects that were there before, as lines of the entry that change them again."""

from __future__ import annotations

import itertools
import types

import torch

from longhand.capture.bytecode.entry.breaks import SkipFrame
from longhand.capture.bytecode.entry.outcome import OutcomeWriter
from longhand.capture.bytecode.trace import DELETED
from longhand.capture.bytecode.values.tracked import Cell, Dict, Iter, Obj, Seq, SetOf, Value

__all__ = ["write_side_effects"]


def write_side_effects(outcome: OutcomeWriter) -> None:
    """Adds everything that the code changed in objects that were there before to the outcome's effects.

    Raises:
        SkipFrame: A change cannot be made again.
    """
    for number in outcome.trace.draws:
        outcome.expression(number)
    for value in outcome.trace.changed:
        _change(outcome, value)
    for owner, written in outcome.trace.attributes.items():
        if isinstance(owner, Obj):
            _attributes(outcome, owner, written)
    for values, names in outcome.trace.globals_written.values():
        for name, value in names.items():
            outcome.effects.append(f"{outcome.constant(values)}[{name!r}] = {outcome.expression(value)}")


def _change(outcome: OutcomeWriter, value: Value) -> None:
    if value.source is None:
        return
    target = outcome.load(value.source)
    if isinstance(value, Iter) and value.sequence is None:  # so many of its items were taken
        outcome.late.append(
            f"next({outcome.constant(itertools.islice)}({target}, {value.position - 1}, None))"
        )
    elif isinstance(value, Iter):
        outcome.late.append(
            f"{target}.__setstate__({value.position})" if value.position >= 0 else f"list({target})"
        )
    elif isinstance(value, Cell):
        if value.content is None:
            outcome.effects.append(f"del {target}.cell_contents")
        else:
            outcome.effects.append(f"{target}.cell_contents = {outcome.expression(value.content)}")
    elif isinstance(value, Seq) and value.kind is list:
        outcome.effects.append(f"list.__setitem__({target}, slice(None), [{outcome.texts_of(value.items)}])")
    elif isinstance(value, Seq):
        outcome.effects.append(f"{target}.clear()")
        outcome.effects.append(f"{target}.extend([{outcome.texts_of(value.items)}])")
    elif isinstance(value, Dict):
        pairs = outcome.let(outcome.pairs(value))
        base = outcome.constant(value.kind)
        outcome.effects.append(f"{base}.clear({target})")
        outcome.effects.append(f"{base}.update({target}, {pairs})")
    elif isinstance(value, SetOf):
        for word, key in value.log:
            given = outcome.key(key) if word != "clear" else ""
            outcome.effects.append(f"{outcome.constant(set)}.{word}({target}, {given})")
    else:
        raise SkipFrame("a change cannot be made again after the graph")


def _attributes(outcome: OutcomeWriter, owner: Obj, written: dict[str, Value]) -> None:
    target = outcome.expression(owner)
    kind = type(owner.value)
    own = outcome.trace.classes.lookup(kind, "__setattr__")
    plain = isinstance(own, types.FunctionType) and own is not torch.nn.Module.__setattr__
    for name, value in written.items():
        if value is DELETED:
            outcome.effects.append(f"object.__delattr__({target}, {name!r})")
        elif plain:
            outcome.effects.append(f"object.__setattr__({target}, {name!r}, {outcome.expression(value)})")
        else:
            outcome.effects.append(f"setattr({target}, {name!r}, {outcome.expression(value)})")
