"""Runs a unit's kernels against references in a process of its own: an edited C++ kernel may crash it.

``python -m longhand.verify.check_worker FOLDER RESULT SETS [KERNEL ...]`` writes RESULT, a JSON list of rows. SETS is a
JSON list of sizes to try beside the example's. The references and check.py are taken from `.base/`, as longhand wrote
them: an edited reference proves nothing. With TRITON_INTERPRET=1 a CUDA unit's kernels run in Triton's interpreter, on
the CPU.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from longhand.emit.unit.lock_file import read_lock
from longhand.errors import UnitError
from longhand.factory import Call
from longhand.loading import import_file
from longhand.proof.smaller import INTERPRETED_WHOLE, bytes_moved, smaller
from longhand.verify.interpretation import import_on_cpu, limit_interpreter
from longhand.verify.varied_sizes import SizeRules, Sizes, in_words, with_tensors
from longhand.verify.worker_progress import tell

_NAME = "longhand_checked_unit"


def main(folder: Path, result: Path, sets: list[Sizes], names: list[str]) -> None:
    """Checks the named kernels, or all of them and the model, at each set of sizes."""
    limit_interpreter()
    is_moved = os.environ.get("TRITON_INTERPRET") == "1" and read_lock(folder)["device"] == "cuda"
    package = (
        import_on_cpu(_NAME, folder)
        if is_moved
        else import_file(_NAME, folder / "__init__.py", [str(folder)])
    )
    check = trusted_check(folder, _NAME)
    kernels = [name for name in check.KERNELS if name in names or not names]
    if is_moved:
        check.DEVICE = "cpu"
    seconds = _timed(package)
    part = _part(check, folder)
    rows: list[Any] = []
    if part is not None:
        check.make_arguments, whole = part.arguments, check.make_arguments
        with contextlib.suppress(Exception):  # the unit may be for this size alone
            rows = _rows(check, kernels, is_whole=not names)
        if not rows or any(not error <= allowed for _, _, error, allowed, _ in rows):
            check.make_arguments, part = whole, None
            seconds.clear()
    if part is None:
        rows = _rows(check, kernels, is_whole=not names)
    rows = [[*row, ""] for row in rows]
    for place, sizes in enumerate(sets):
        tell(f"at {in_words(sizes)}", place, len(sets))
        rows += _rows_at(check, kernels, folder, sizes, is_whole=not names)
    called = {row[0] for row in rows}
    rows += [
        [name, (), math.inf, 0.0, "anywhere: the check did not call it", ""]
        for name in kernels
        if name not in called
    ]
    outcome = {
        "rows": [[*row[:1], list(row[1]), *row[2:]] for row in rows],
        "seconds": seconds,
        "part": part.how if part is not None else "",
    }
    result.write_text(json.dumps(outcome))


@dataclasses.dataclass(frozen=True)
class _Part:
    arguments: Callable[[], Any]
    how: str


def _part(check: Any, folder: Path) -> _Part | None:
    """Arguments that take the interpreter less time than the example's; None where these are as good."""
    if os.environ.get("TRITON_INTERPRET") != "1" or bytes_moved(folder) <= INTERPRETED_WHOLE:
        return None
    make = check.make_arguments

    def first_row() -> Any:
        made = make()
        args = made if isinstance(made, tuple) else (made,)
        part = smaller(Call(make, args, {}))
        assert part is not None
        return part.call.args if isinstance(made, tuple) else part.call.args[0]

    made = make()
    part = smaller(Call(make, made if isinstance(made, tuple) else (made,), {}))
    return _Part(first_row, part.how) if part is not None else None


def _rows(check: Any, kernels: list[str], *, is_whole: bool) -> list[Any]:
    # With gradients on: in a training unit the backward kernels run too. Inference turns them off by itself.
    return check.check_kernels(kernels) + (check.check_model() if is_whole else [])


def _rows_at(check: Any, kernels: list[str], folder: Path, sizes: Sizes, *, is_whole: bool) -> list[Any]:
    """The rows at other sizes than the example's; where it does not even run, one that says so."""
    rules, make = SizeRules.of(read_lock(folder)), check.make_arguments
    check.make_arguments = lambda: with_tensors(make(), lambda tensors: rules.resized(tensors, sizes))
    try:
        rows = _rows(check, kernels, is_whole=is_whole)
    except UnitError:
        raise
    except Exception as error:
        words = f"does not run: {type(error).__name__}: {' '.join(str(error).split())}"
        rows = [("the model", (), math.inf, 0.0, words)]
    finally:
        check.make_arguments = make
    return [[*row, in_words(sizes)] for row in rows]


def _timed(package: Any) -> dict[str, float]:
    """Lets each kernel measure itself: seconds by name."""
    seconds: dict[str, float] = {}
    names = list(package.kernels.__all__)

    def timed(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            begin = time.perf_counter()
            if name not in seconds:
                tell(name, len(seconds), len(names))
            try:
                return kernel(*args, **named)
            finally:
                seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - begin

        return run

    for name in names:
        setattr(package.kernels, name, timed(name, getattr(package.kernels, name)))
    return seconds


def trusted_check(folder: Path, package: str) -> Any:
    """The check.py of a unit that was imported as `package`, with longhand's own references."""
    check: Any = import_file(f"{package}._check", _trusted(folder, "check.py"))
    for name, (windows, _) in check.KERNELS.items():
        face = import_file(f"{package}.kernels._base_{name}", _trusted(folder, f"kernels/{name}.py"))
        check.KERNELS[name] = (windows, face.reference)
    return check


def _trusted(folder: Path, path: str) -> Path:
    base = folder / ".base" / path
    return base if base.is_file() else folder / path


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4:])
