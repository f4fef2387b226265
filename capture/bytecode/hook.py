"""The frame hook, where its extension is built; longhand works without it through its other frontends."""

from __future__ import annotations

import importlib
from types import ModuleType

from longhand.errors import CaptureError

__all__ = ["frame_hook", "is_available"]

_NAME = "longhand.capture._frame_eval"
_loaded: list[ModuleType] = []


def is_available() -> bool:
    """Whether the extension can be imported."""
    try:
        frame_hook()
    except CaptureError:
        return False
    return True


def frame_hook() -> ModuleType:
    """The extension module; see the head of capture/_frame_eval.c.

    Raises:
        CaptureError: It was not built.
    """
    if not _loaded:
        try:
            hook = importlib.import_module(_NAME)
        except ImportError as error:
            raise CaptureError(
                f"The frame hook cannot be loaded: {error}.",
                hint="Install longhand with a C compiler at hand (pip install -e .), or use frontend='dynamo'.",
            ) from None
        if not all(hasattr(hook, name) for name in ("call", "same_code", "HeldPaths")):
            raise CaptureError(
                f"The frame hook {hook.__file__} was built from an older capture/_frame_eval.c.",
                hint="Build it again (pip install -e .).",
            )
        _loaded.append(hook)
    return _loaded[0]
