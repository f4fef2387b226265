"""What a loop over a row puts aside for the next: where plain loops run on a CPU, a value that costs more than a store
and a load waits in the output row (it is in the L1 cache and will be written anyway), or in a scratch row.

A block of lanes on a GPU has no such place: there a later loop computes again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch

from longhand.lower.ir import PRIMITIVES, Buffer, Cost, Load, Pointwise, Store, arguments, domains
from longhand.schedule.kernels.pass_depths import PassDepths

_LOADS = {Cost.NOTHING: 0, Cost.MEDIUM: 1, Cost.HEAVY: 4}  # of float32 from the L1 cache, roughly
# Staging pays from this cost on: an output row is written anyway, a scratch row takes cache of its own.
_WORTH_AN_OUTPUT_ROW = 2
_WORTH_A_SCRATCH_ROW = 3


@dataclasses.dataclass
class CachedValue:
    """A value put aside.

    Attributes:
        position: The value.
        store: The Store in whose row it waits; None for a scratch row.
        written: The loop that writes it.
        read: The last loop that reads it.
    """

    position: int
    store: int | None
    written: int
    read: int


class InterPassCache:
    """Decides for a CPU; `rows` are the stores whose output rows may hold values, by the loop that stores them."""

    def __init__(
        self,
        depths: PassDepths,
        buffers: Mapping[str, Buffer],
        rows: Mapping[int, int],
        *,
        is_on: bool,
        has_scratch: bool,
    ) -> None:
        self.kept: list[CachedValue] = []
        self._depths = depths
        self._buffers = buffers
        self._rows = _usable_rows(depths, rows) if is_on else {}
        self._is_on = is_on
        self._has_scratch = has_scratch

    def keep(self, position: int, written: int, read: int) -> bool:
        """Whether loop `read` gets the value back from loop `written`, instead of computing it again."""
        if not self._is_on or not isinstance(self._depths.body[position], Pointwise):
            return False
        before = next((kept for kept in self.kept if kept.position == position), None)
        if before is not None:
            if before.store is not None and not self._is_free(before.store, before, written, read):
                return False
            before.read = read
            return True
        cost = self._cost(position, read)
        store = self._free_row(position, written, read) if cost >= _WORTH_AN_OUTPUT_ROW else None
        if store is None and not (self._has_scratch and cost >= _WORTH_A_SCRATCH_ROW):
            return False
        self.kept.append(CachedValue(position, store, written, read))
        return True

    def _free_row(self, position: int, written: int, read: int) -> int | None:
        value = self._depths.body[position]
        assert isinstance(value, Pointwise)
        cached = [(store, CachedValue(position, store, written, read)) for store in self._rows]
        own_first = sorted(cached, key=lambda pair: self._value_of(pair[0]) != position)
        for store, candidate in own_first:
            if self._row_dtype(store) == value.dtype and self._is_free(store, candidate, written, read):
                return store
        return None

    def _is_free(self, store: int, candidate: CachedValue, written: int, read: int) -> bool:
        """Whether the row holds nothing else between the two loops."""
        done = self._rows[store]
        if self._value_of(store) == candidate.position:
            if written != done:
                return False
        elif read > done:
            return False
        return all(
            kept is candidate or kept.store != store or written >= kept.read or kept.written >= read
            for kept in self.kept
        )

    def _value_of(self, store: int) -> int:
        value = self._depths.body[store]
        assert isinstance(value, Store)
        return value.value

    def _row_dtype(self, store: int) -> torch.dtype:
        value = self._depths.body[store]
        assert isinstance(value, Store)
        return self._buffers[value.buffer].dtype

    def _cost(self, position: int, read: int) -> int:
        """What computing the value again in loop `read` costs."""
        at_hand = {kept.position for kept in self.kept if kept.written < read}
        seen: set[int] = set()
        waiting = [position]
        cost = 0
        while waiting:
            current = waiting.pop()
            if current in seen or not self._depths.is_element[current]:
                continue
            seen.add(current)
            value = self._depths.body[current]
            if current in at_hand:
                cost += 1
                continue
            if isinstance(value, Load):
                narrow = self._buffers[value.buffer].dtype.itemsize < value.dtype.itemsize
                cost += 3 if value.index.values else 2 if narrow else 1
            elif isinstance(value, Pointwise):
                cost += _LOADS[PRIMITIVES[value.op].cost]
            waiting.extend(arguments(value))
        return cost


def _usable_rows(depths: PassDepths, rows: Mapping[int, int]) -> dict[int, int]:
    """Stores of whole rows, each element once, into memory that the kernel does not read."""
    spans = domains(depths.body)
    everything = frozenset[str]().union(*spans)
    read = {value.buffer for value in depths.body if isinstance(value, Load)}
    usable: dict[int, int] = {}
    for position, done in rows.items():
        value = depths.body[position]
        assert isinstance(value, Store)
        whole = spans[position] == everything and not value.index.values and value.mask is None
        if whole and value.buffer not in read:
            usable[position] = done
    return usable
