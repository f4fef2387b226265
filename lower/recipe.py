"""How an intermediate follows from others, element by element."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from longhand.lower.builder import Handle
from longhand.lower.nest import NestBuilder
from longhand.lower.views import TensorView


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How the elements of an intermediate follow from others, so that `cat` and `pad` can compute them in place.

    Attributes:
        views: What is read, each of the intermediate's shape.
        compute: The value from a nest and the loaded elements of `views`.
    """

    views: tuple[TensorView, ...]
    compute: Callable[[NestBuilder, list[Handle]], Handle]
