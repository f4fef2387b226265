"""`longhand check --verify`: what `check` says of a unit, and what running it says."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from longhand.emit.unit.lock_file import LOCK, read_lock
from longhand.errors import LonghandError, NotRunHereError, OptionError
from longhand.staleness.file_check import CheckResult
from longhand.verify.verification import verify
from longhand.verify.worker_progress import Tell, no_progress


def with_verification(
    result: CheckResult, *, sizes: Sequence[str] = (), tell: Tell = no_progress
) -> CheckResult:
    """The same with what running the unit says; one that is broken is not run, and one that is stale only by kernel.

    Raises:
        OptionError: `sizes` do not fit the unit.
    """
    if result.breaches:
        return result
    names = tuple(read_lock(result.folder).get("kernels", ()))
    is_stale = any(change.path != LOCK for change in result.changes)
    try:
        verification = verify(
            result.folder, result.factory or None, names if is_stale else (), sizes=sizes, tell=tell
        )
    except OptionError:
        raise
    except NotRunHereError as error:
        return dataclasses.replace(result, not_run=str(error))
    except LonghandError as error:
        return dataclasses.replace(result, verified="it was run", faults=((LOCK, str(error)),))
    faults = [
        (
            _file_of(result.folder, one.name),
            f"{one.name}{f' at {one.at}' if one.at else ''} is wrong {one.mismatch}",
        )
        for one in verification.kernels
        if not one.is_right
    ]
    faults += [
        ("model.py", f"{one.name} is wrong {one.note or one.mismatch}")
        for one in verification.whole
        if not one.is_right
    ]
    words = "its kernels were run: the model is another today" if is_stale else "it was run beside its model"
    return dataclasses.replace(result, verified=words, faults=tuple(faults), sizes=verification.sizes)


def _file_of(folder: Path, kernel: str) -> str:
    paths = (f"kernels/{kernel}.cpp", f"kernels/{kernel}.py")
    return next((path for path in paths if (folder / path).is_file()), "model.py")
