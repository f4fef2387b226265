"""The numerics of one kernel, found when it is planned."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch

from longhand.lower.ir import Value
from longhand.schedule.numerics.accumulator_precision import SumType, sums_in_double
from longhand.schedule.numerics.copies import copied_values
from longhand.schedule.numerics.nan_analysis import nan_droppers
from longhand.schedule.numerics.reciprocals import inverted_sums


@dataclasses.dataclass(frozen=True)
class Numerics:
    """Positions of a kernel's body by how exactly they are computed. They follow from body and dtypes.

    Attributes:
        copied: Loads that are only stored, and choices among such: they stay in the dtype of their memory.
        drops_nan: Maxima that may ignore NaN, since it shows all the same.
        sums_in_double: CPU: sums of float32 that are accumulated in double.
        sum_types: Of a kernel whose values have their words: what each of `sums_in_double` is accumulated in; of others
            float.
        inverted_sums: CPU, ROWS_LOOPED: sums whose inverse a row is multiplied by, instead of divided by the sum.
    """

    copied: frozenset[int] = frozenset()
    drops_nan: frozenset[int] = frozenset()
    sums_in_double: frozenset[int] = frozenset()
    inverted_sums: frozenset[int] = frozenset()
    sum_types: Mapping[int, SumType] = dataclasses.field(default_factory=dict)


def find_numerics(
    body: tuple[Value, ...],
    memory: Mapping[str, torch.dtype],
    *,
    has_free_doubles: bool,
    looped_cols: frozenset[str],
) -> Numerics:
    """The numerics of a kernel.

    Args:
        body: The kernel's.
        memory: The dtype of each buffer that it names.
        has_free_doubles: Whether plain loops compute it: there a double costs little.
        looped_cols: The axes along a row that such loops walk; empty in other schedules.
    """
    return Numerics(
        copied_values(body, memory),
        nan_droppers(body),
        sums_in_double(body, memory) if has_free_doubles else frozenset(),
        inverted_sums(body, looped_cols) if has_free_doubles and looped_cols else frozenset(),
    )
