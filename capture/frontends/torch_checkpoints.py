"""The private names of torch that tell which traced calls stand under torch.utils.checkpoint; a test names each."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

from torch.fx.experimental.proxy_tensor import get_proxy_mode

__all__ = ["marking_checkpoints"]

_module: Any = importlib.import_module(
    "torch.utils.checkpoint"
)  # torch.utils has a function of the same name
_AROUND = "_checkpoint_without_reentrant_generator"  # runs around a region, by its one yield


@contextlib.contextmanager
def marking_checkpoints(marks: Iterator[dict[str, Any]], refuse: Callable[[], Any]) -> Iterator[None]:
    """While inside, what torch.export traces under torch.utils.checkpoint has a mark in its node's ``meta["custom"]``:
    the trace itself shows nothing of such a region.

    Args:
        marks: One for each region, in the order in which they begin.
        refuse: Raises; for a region in another one, where torch.export finds gradients switched off.
    """
    around = 0
    original = getattr(_module, _AROUND)

    def marked(*args: Any, **kwargs: Any) -> Iterator[None]:
        nonlocal around
        if around:
            refuse()
        mode = get_proxy_mode()
        mark, before = next(marks), set(mode.tracer.graph.nodes) if mode else set()
        around += 1
        try:
            yield from original(*args, **kwargs)
        finally:
            around -= 1
        for node in mode.tracer.graph.nodes if mode else ():
            if node not in before:
                node.meta["custom"] = node.meta.get("custom", {}) | mark

    setattr(_module, _AROUND, marked)
    try:
        yield
    finally:
        setattr(_module, _AROUND, original)
