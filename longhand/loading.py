"""`load`: a folder of generated source code becomes a module class or a function. Needs torch only."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from longhand.deploy.operator import as_operator
from longhand.emit.unit.loading import load_unit
from longhand.staleness.load_time import look_at


def load(path: str | Path, *, check: bool = True) -> Any:
    """What the unit in a folder exports: a module class, or a function.

    Args:
        path: The folder.
        check: Look first whether the unit's files fit each other, and whether the functions that the model was made
            of are still what they were; a `StaleUnitWarning` says where they are not. It takes milliseconds.

    Raises:
        UnitError: There is no unit, or it cannot be imported.
        EditError: An edit breaks what other files of the unit rely on.
    """
    if check:
        look_at(Path(path))
    return as_operator(load_unit(Path(path)), Path(path).resolve())


def import_file(name: str, path: Path, locations: list[str] | None = None) -> Any:
    """Imports one file under a name; with `locations`, as a package."""
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=locations)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def bound(unit: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """A unit on the memory of the original's parameters and buffers (no copies); a function's unit as it is."""
    if not isinstance(original, nn.Module):
        return unit
    module = unit()
    # Not keep_vars: assigning a Parameter itself would take requires_grad away from the original.
    module.load_state_dict(original.state_dict(), assign=True)
    _tie(module, original)
    for tensor in tuple(original.parameters()) + tuple(original.buffers()):
        module.to(tensor.device)  # what is in no state_dict
        break
    return module.train(original.training)


def _tie(module: nn.Module, original: nn.Module) -> None:
    """Makes one Parameter again of what is one in the original: assigning a state_dict makes one for each key."""
    first: dict[nn.Parameter, str] = {}
    for path, parameter in original.named_parameters(remove_duplicate=False):
        if parameter in first:
            owner, _, name = path.rpartition(".")
            setattr(module.get_submodule(owner), name, module.get_parameter(first[parameter]))
        else:
            first[parameter] = path
