"""What a factory of the table returns: a module and one call of it, as ``longhand generate`` takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

Example = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
Factory = Callable[[], Example]
