"""Python's cyclic garbage collector rests while a unit is compiled, and while the compiler is imported.

A graph of a thousand nodes and all that is made from it is alive until the end, and modules stay for good: collections
in between look at every object of the process again and again, and find nothing.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_n_inside = 0
_was_enabled = True


@contextmanager
def no_collection() -> Iterator[None]:
    """No collection inside, in any thread; afterwards as before. Compilations may overlap."""
    global _n_inside, _was_enabled
    with _lock:
        if _n_inside == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _n_inside += 1
    try:
        yield
    finally:
        with _lock:
            _n_inside -= 1
            if _n_inside == 0 and _was_enabled:
                gc.enable()
