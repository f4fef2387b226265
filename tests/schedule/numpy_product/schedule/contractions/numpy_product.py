"""NUMPY_PRODUCT: a contraction as one expression over whole arrays. A toy: docs/adding_a_contraction_template.md."""

from __future__ import annotations

from longhand.lower.ir import AxisSize, Contraction
from longhand.schedule.contractions.template import ContractionTemplate, looped_over_products
from longhand.schedule.kernels.kernel_schedule import KernelSchedule
from longhand.schedule.kernels.schedules.entry import ScheduleEntry
from longhand.schedule.targets import TargetFacts

NUMPY_PRODUCT = KernelSchedule("numpy_product", has_passes=True, is_row_wise=True)

_MOST_VALUES = 24


def _accepts(contraction: Contraction, target: TargetFacts) -> bool:
    is_short = len(contraction.body) <= _MOST_VALUES
    return target.name == "numpy" and is_short and not any(isinstance(v, AxisSize) for v in contraction.body)


TEMPLATE = ContractionTemplate(ScheduleEntry(NUMPY_PRODUCT, looped_over_products, {}), _accepts)
