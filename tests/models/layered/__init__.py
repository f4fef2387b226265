"""Models of several nearly equal layers, which a unit may take for one another: ``LAYERED`` makes each by its name.

What differs from layer to layer is small and decides the result: a number, a buffer that is in no state_dict, an
optional tensor, the window of an attention, who shares whose weights.
"""

from tests.models.layered import (
    attention,
    images,
    numbers_and_buffers,
    optional_parts,
    programs,
    several_stacks,
    sharing,
    windows,
)
from tests.models.layered.registry import LAYERED

__all__ = [
    "LAYERED",
    "attention",
    "images",
    "numbers_and_buffers",
    "optional_parts",
    "programs",
    "several_stacks",
    "sharing",
    "windows",
]
