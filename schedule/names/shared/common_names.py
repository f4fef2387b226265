"""One name for a kernel that its calls would call otherwise each: what is common to their words, or what all read."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable

from torch import fx

from longhand.schedule.names.call_frames import called_in, is_derivative, is_forward
from longhand.schedule.names.meanings.made_names import short_enough
from longhand.schedule.names.operation_names import aten_name, lists_ops, op_word
from longhand.schedule.names.people_names import told_of
from longhand.schedule.names.shared.callers import Caller, Callers
from longhand.schedule.names.words import identifier

_SAY_NOTHING = frozenset({"make", "d", "and", "of", "to", "with", "add", "x", "the"})
_READS_ROWS = frozenset({"index", "index_select", "embedding"})


def common_name(callers: Callers, told: Collection[str]) -> str | None:
    """``make_d_rel_pos``, ``gather_rel_pos``: for a kernel that its calls call differently; None if nothing is shared.

    Args:
        callers: The calls.
        told: What each is called for itself.
    """
    start = _shared_start(told)
    is_whole = start in told  # what all of them begin with may be only whose part they are
    return _of_rows(callers) or (start if is_whole else None) or _of_function(callers) or start


def _shared_start(names: Iterable[str]) -> str | None:
    """``make_d_rel_pos``, of ``make_d_rel_pos_h`` and ``make_d_rel_pos_w``: the words with which all of them begin."""
    lists = [name.split("_") for name in names]
    steps = zip(*lists, strict=False)
    words = [step[0] for step in itertools.takewhile(lambda step: len({*step}) == 1, steps)]
    while words and words[-1] in _SAY_NOTHING:
        words.pop()
    name = "_".join(words)
    return name if len(lists) > 1 and {*words} - _SAY_NOTHING and not lists_ops(name) else None


def _of_rows(callers: Callers) -> str | None:
    """``gather_rel_pos``: of kernels that read rows of a table that the module holds, what all tables are called."""
    leaves = [_table(caller) for caller in callers.told_apart]
    if "" in leaves:
        return None
    word = leaves[0] if len({*leaves}) == 1 else _shared_start(leaves)
    return short_enough(f"gather_{word}") if word else None


def _table(caller: Caller) -> str:
    """The name of the parameter whose rows a call reads as its last step; or empty."""
    loud = [node for node in caller.nodes if not op_word(node).silent]
    if not loud or aten_name(loud[-1]) not in _READS_ROWS:
        return ""
    table = loud[-1].args[0]
    entry = caller.words.inputs.get(table.name) if isinstance(table, fx.Node) else None
    return identifier(entry.target.rpartition(".")[2]) if entry is not None and not entry.is_given else ""


def _of_function(callers: Callers) -> str | None:
    """``add_rel_pos_gather``: the one function, which is no module's forward(), of all calls, and its last step."""
    loud = [[node for node in caller.nodes if not op_word(node).silent] for caller in callers.told_apart]
    frames = {called_in(node)[0] for nodes in loud for node in nodes}
    frame = (frames.pop(), "") if len(frames) == 1 else None
    if frame is None or is_forward(frame) or any(map(is_derivative, itertools.chain(*loud))):
        return None
    told, last = told_of(frame), {op_word(nodes[-1]).word for nodes in loud}
    return short_enough(f"{told}_{min(last)}") if told and len(last) == 1 else None
