"""Loads a unit from its folder, which need not be on sys.path."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
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
    module = sys.modules.get(name)
    if module is None:
        module = _import(name, folder, entry)
    exported = list(getattr(module, "__all__", ()))
    if len(exported) != 1 or not hasattr(module, exported[0]):
        raise UnitError(f"{entry} must export one class or function in __all__, found {exported}.")
    return getattr(module, exported[0])


def _fingerprint(folder: Path) -> str:
    """Changes when any source file of the unit does."""
    digest = hashlib.sha256(str(folder).encode())
    for path in sorted(folder.glob("*.py")) + sorted(folder.glob("kernels/*")) + sorted(folder.glob("*.pt")):
        if path.is_file():
            facts = path.stat()
            digest.update(f"{path.name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _import(name: str, folder: Path, entry: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, entry, submodule_search_locations=[str(folder)])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the edited code raises
        for loaded in [key for key in sys.modules if key == name or key.startswith(f"{name}.")]:
            del sys.modules[loaded]
        if type(error).__name__ == "KernelBuildError":
            raise ToolError(str(error)) from error
        raise UnitError(
            f"{folder} cannot be imported: {type(error).__name__}: {error}",
            hint="Undo the last edit, or generate it again.",
        ) from error
    return module
