"""Compares a whole CUDA unit with the eager original where there is no GPU: both run on the CPU.

``python -m longhand.verify.interpreted_worker FOLDER RESULT SETS [FACTORY]``, with TRITON_INTERPRET=1, writes RESULT, a
JSON list of comparisons, at the example's sizes and at each of SETS, a JSON list. The kernels run in Triton's
interpreter, library calls as the CPU's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from pathlib import Path

from longhand.proof.smaller import INTERPRETED_WHOLE, bytes_moved, smaller
from longhand.verify.comparison import Comparison
from longhand.verify.eager_check import compare_at_sizes, compare_within_noise
from longhand.verify.interpretation import import_on_cpu, limit_interpreter
from longhand.verify.original import call_of, moved
from longhand.verify.varied_sizes import Sizes

_NAME = "longhand_interpreted_unit"


def main(folder: Path, result: Path, sets: list[Sizes], factory: str | None = None) -> None:
    """Runs the unit and its original."""
    limit_interpreter()
    package = import_on_cpu(_NAME, folder)
    unit = getattr(package, package.__all__[0])
    call = moved(call_of(folder, factory), "cpu")
    part = smaller(call) if bytes_moved(folder) > INTERPRETED_WHOLE else None
    rows: tuple[Comparison, ...] = ()
    if part is not None:
        with contextlib.suppress(Exception):  # the unit may be for this size alone
            rows = compare_within_noise(folder, unit, part.call)
    if part is None or not rows or not all(row.is_right for row in rows):
        part, rows = None, compare_within_noise(folder, unit, call)
    rows += compare_at_sizes(folder, unit, call, sets)
    outcome = {
        "rows": [dataclasses.asdict(row) for row in rows],
        "part": part.how if part is not None else "",
    }
    result.write_text(json.dumps(outcome))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]), *sys.argv[4:])
