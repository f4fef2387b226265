"""Loads a unit from its folder, which need not be on sys.path."""

from __future__ import annotations

import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from longhand.errors import ToolError, UnitError


def load_unit(path: Path) -> Any:
    """The class (or function) that the unit in a folder exports.

    A unit whose files have changed is loaded anew; what was loaded before goes on working.

    Raises:
        UnitError: There is no unit, or it cannot be imported.
        ToolError: The C++ compiler is missing or refuses a kernel.
    """
    folder = Path(path).resolve()
    entry = folder / "__init__.py"
    if not entry.is_file():
        raise UnitError(
            f"{path} is no generated unit: it has no __init__.py.",
            hint="Make one: longhand generate MODULE:FACTORY --out DIR.",
        )
    name = f"longhand_unit_{folder.name.replace('.', '_')}_{_fingerprint(folder)}"
    module = _import(name, folder)
    exported = list(getattr(module, "__all__", ()))
    if len(exported) != 1 or not hasattr(module, exported[0]):
        raise UnitError(f"{entry} must export one class or function in __all__, found {exported}.")
    unit = getattr(module, exported[0])
    if isinstance(unit, type):
        _make_picklable(unit, folder)
    return unit


def _make_picklable(unit: Any, folder: Path) -> None:
    """Lets pickle note the folder: under the name that the package has here no other process finds it."""
    if "__reduce_ex__" not in vars(unit):
        package = unit.__module__.partition(".")[0]
        made_of = (str(folder), package, unit.__qualname__)
        unit.__reduce_ex__ = lambda self, _: (_unpickled, made_of, vars(self))


def _unpickled(folder: str, package: str, name: str) -> Any:
    """An empty object of a unit, in whatever process; the unit must be where it was.

    It is imported under the package's name in the process that pickled, where the classes of its parts are looked for.

    Raises:
        UnitError: It is not there any more, or another.
    """
    load_unit(Path(folder))
    unit = getattr(_import(package, Path(folder)), name, None)
    if unit is None:
        raise UnitError(f"{folder} no longer has the class {name} that was pickled.")
    return unit.__new__(unit)


def _fingerprint(folder: Path) -> str:
    """Changes when any source file of the unit does."""
    digest = hashlib.sha256(str(folder).encode())
    kinds = ("*.py", "kernels/*", "*.pt", "*.[ch]")
    for path in (path for kind in kinds for path in sorted(folder.glob(kind))):
        if path.is_file():
            facts = path.stat()
            digest.update(f"{path.name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _import(name: str, folder: Path) -> ModuleType:
    """The unit as a package, by Python's own import: one thread imports it, others wait; what fails leaves nothing."""
    _FINDER.folders[name] = folder
    if _FINDER not in sys.meta_path:
        sys.meta_path.append(_FINDER)
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever the edited code raises
        if type(error).__name__ == "KernelBuildError":
            raise ToolError(str(error)) from error
        raise UnitError(
            f"{folder} cannot be imported: {type(error).__name__}: {error}",
            hint="Undo the last edit, or generate it again.",
        ) from error


class _UnitFinder(importlib.abc.MetaPathFinder):
    """Finds units by the names that `load_unit` gives them."""

    def __init__(self) -> None:
        self.folders: dict[str, Path] = {}

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        folder = self.folders.get(fullname)
        if folder is None:
            return None
        entry = str(folder / "__init__.py")
        return importlib.util.spec_from_file_location(
            fullname, entry, loader=_Loader(fullname, entry), submodule_search_locations=[str(folder)]
        )


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a unit's package whole: an interrupt, too, leaves none of its modules behind."""

    def exec_module(self, module: ModuleType) -> None:
        try:
            super().exec_module(module)
        except BaseException:
            for loaded in [key for key in sys.modules if key.startswith(f"{module.__name__}.")]:
                sys.modules.pop(loaded, None)
            raise


_FINDER = _UnitFinder()
