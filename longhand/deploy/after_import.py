"""What is to be done once a module is there that is too slow to import for it."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType


def after_import(name: str, do: Callable[[], None]) -> None:
    """Does something as soon as a module has been imported: now, if it was."""
    if name in sys.modules:
        do()
        return
    sys.meta_path.insert(0, _Waiting(name, do))


class _Waiting(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, do: Callable[[], None]) -> None:
        self.name = name
        self.do = do

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                self.do()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
