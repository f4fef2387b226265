"""Runs a unit's kernels against references in a process of its own: an edited C++ kernel may crash it.

``python -m longhand.check_worker FOLDER RESULT [KERNEL ...]`` writes RESULT, a JSON list of rows. The references and
check.py are taken from `.base/`, as longhand wrote them: an edited reference proves nothing. With TRITON_INTERPRET=1 a
CUDA unit's kernels run in Triton's interpreter, on the CPU.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from longhand.interpretation import limit_interpreter, move_to_cpu
from longhand.loading import import_file

_NAME = "longhand_checked_unit"


def main(folder: Path, result: Path, names: list[str]) -> None:
    """Checks the named kernels, or all of them and the model."""
    limit_interpreter()
    package = import_file(_NAME, folder / "__init__.py", [str(folder)])
    check = trusted_check(folder, _NAME)
    kernels = [name for name in check.KERNELS if name in names or not names]
    if os.environ.get("TRITON_INTERPRET") == "1" and check.DEVICE == "cuda":
        check.DEVICE = "cpu"
        move_to_cpu(package)
    # With gradients on: in a training unit the backward kernels run too. Inference turns them off by itself.
    rows = check.check_kernels(kernels) + ([] if names else check.check_model())
    called = {row[0] for row in rows}
    rows += [
        (name, (), math.inf, 0.0, "anywhere: the check did not call it")
        for name in kernels
        if name not in called
    ]
    result.write_text(json.dumps([[*row[:1], list(row[1]), *row[2:]] for row in rows]))


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
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
