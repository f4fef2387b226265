"""Every Python file of a unit is proven before anything of it is written: pyflakes, and what pyflakes cannot see.

That is each local name, along all paths: what is read before it is bound, or after its `del` (bindings.py).
"""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Mapping

from pyflakes.checker import Checker
from pyflakes.messages import UnusedImport, UnusedVariable

from longhand.emit.unit.on_disk import BASE
from longhand.errors import ProofError, UntidyWarning
from longhand.proof.bindings import binding_faults
from longhand.proof.scopes import Fault, kernel_faults

_TOLD = 5


def prove_python(files: Mapping[str, str | bytes]) -> None:
    """Looks at the unit's Python files, by relative path; its base holds the same. What is only untidy is a warning.

    Raises:
        ProofError: One of them would fail, or reads something else than what was meant.
    """
    own = {path: text for path, text in files.items() if isinstance(text, str)}
    faults = python_faults({path: text for path, text in own.items() if not path.startswith(f"{BASE}/")})
    for fault in faults:
        if fault.is_harmless:
            warnings.warn(f"{fault}. That is harmless; please report it.", UntidyWarning, stacklevel=2)
    faults = [fault for fault in faults if not fault.is_harmless]
    if faults:
        told = "; ".join(str(fault) for fault in faults[:_TOLD])
        more = f"; and {len(faults) - _TOLD} more" if len(faults) > _TOLD else ""
        raise ProofError(
            f"the Python that longhand made for this model is faulty: {told}{more}.",
            hint="Nothing was written. This is a bug in longhand: please report it with the model's code.",
        )


def python_faults(files: Mapping[str, str]) -> list[Fault]:
    """What is wrong with the Python files among `files`, file by file and in the order of lines."""
    return [fault for path in sorted(files) if path.endswith(".py") for fault in _faults(path, files[path])]


@functools.lru_cache(maxsize=256)  # runtime.py and much of check.py are the same in many units
def _faults(path: str, text: str) -> tuple[Fault, ...]:
    try:
        tree = ast.parse(text)
        # It refuses more than the grammar does: too many targets.
        compile(text, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        return (Fault(path, error.lineno or 1, "", f"no Python: {error.msg}"),)
    faults = set(binding_faults(path, tree, text))
    if path.startswith("kernels/"):
        faults |= set(kernel_faults(path, tree))
    told = {(fault.line, fault.name) for fault in faults}
    lines = text.splitlines()
    for message in Checker(tree, filename=path).messages:
        if isinstance(message, UnusedImport) and "# noqa: F401" in lines[message.lineno - 1]:
            continue  # for what the module does when it is imported
        name = str(message.message_args[0]) if message.message_args else ""
        if (message.lineno, name) not in told:
            words = message.message % message.message_args
            is_harmless = isinstance(message, UnusedImport | UnusedVariable)
            faults.add(Fault(path, message.lineno, name, words, is_harmless))
    return tuple(sorted(faults))
