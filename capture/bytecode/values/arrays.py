"""Arrays of numpy's that the captured code makes of known numbers: what is asked of them is known, too.

Nothing writes to one and none shares memory with another, as far as captured code goes: what would is a break.
"""

from __future__ import annotations

import sys
from typing import Any

from longhand.capture.bytecode.entry.breaks import Unsupported
from longhand.capture.bytecode.values.tracked import Array

__all__ = ["ATTRIBUTES", "METHODS", "array_of", "is_array"]

ATTRIBUTES = frozenset(["shape", "ndim", "size", "dtype", "nbytes", "itemsize"])
METHODS = frozenset([
    "any", "all", "sum", "prod", "max", "min", "mean", "std", "var", "argmax", "argmin", "argsort", "cumsum", "cumprod",
    "round", "clip", "tolist", "item", "astype", "copy", "nonzero", "dot",
])  # fmt: skip


def is_array(value: Any) -> bool:
    """Whether it is one of numpy's own arrays. numpy need not be there."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def array_of(value: Any) -> Array:
    """The tracked value of an array that capture computed.

    Raises:
        Unsupported: It shares memory with another, or holds objects.
    """
    if not value.flags.writeable:  # as those are that are known already
        raise Unsupported("a view of an array of numpy's, or the array itself, is given back")
    if value.dtype.hasobject:
        raise Unsupported("an array of numpy's that holds objects is made")
    known = value.copy(order="K")
    known.setflags(write=False)
    return Array(known)
