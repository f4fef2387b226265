"""The kernels of a CUDA unit, compiled for `longhand build`: binaries that a GPU's driver loads, without Triton's help.

Triton compiles a kernel for constants, for warps, and for what its arguments are multiples of. So each launch that the
unit makes is compiled as Triton would do it, and once more assuming nothing of addresses; where sizes vary, the unit's
launches at other sizes too. The built unit's runtime takes the first binary that fits a call.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from longhand.errors import OptionError, ToolError
from longhand.verify.varied_sizes import SizeRules, Sizes
from longhand.verify.worker_progress import Listener

_MOST_SECONDS = 3600
_MOST_WITHOUT_LIMIT = 4096  # of a size that may be anything
Tell = Callable[[str, int, int], None]


@dataclasses.dataclass(frozen=True)
class Cubins:
    """What was compiled.

    Attributes:
        binaries: By ``FILE.FUNCTION`` when each may be used, and its file.
        objects: The digest of each file.
        left: ``FILE.FUNCTION: why`` of those that Triton must compile where they run.
    """

    binaries: dict[str, list[dict[str, Any]]]
    objects: dict[str, str]
    left: tuple[str, ...]


def compile_cubins(
    folder: Path, built: Path, archs: Sequence[str], texts: Sequence[str], lock: dict[str, Any], tell: Tell
) -> Cubins:
    """Compiles a unit's kernels into ``built``/ARCH/.

    Args:
        folder: The unit, with the runtime that it was generated with.
        built: Where the binaries go.
        archs: Such as ``sm_90``.
        texts: Sizes to build for, as ``--sizes`` has them; by default powers of two within the ranges.
        lock: The unit's.
        tell: Is told what is being compiled.

    Raises:
        OptionError: A GPU or sizes cannot be built for.
        ToolError: The unit does not run on tensors without memory, or the process that compiles dies.
    """
    for arch in archs:
        if not re.fullmatch(r"sm_\d{2,3}", arch):
            raise OptionError(f"--arch {arch!r} is no GPU that can be built for.", hint="For instance sm_90.")
    rules = SizeRules.of(lock)
    sets = rules.sets_of(texts) if texts else usual_sets(rules)
    binaries: dict[str, list[dict[str, Any]]] = {}
    left: dict[str, None] = {}
    for arch in archs:
        compiled = _compiled(folder, built, arch, sets, tell)
        for name, entries in compiled["binaries"].items():
            binaries.setdefault(name, []).extend(entries)
        left |= dict.fromkeys(f"{name}: {why}" for name, why in compiled["failures"].items())
    files = sorted({entry["file"] for entries in binaries.values() for entry in entries})
    digests = {file: hashlib.sha256((built / file).read_bytes()).hexdigest() for file in files}
    return Cubins(dict(sorted(binaries.items())), digests, tuple(left))


def usual_sets(rules: SizeRules) -> tuple[Sizes, ...]:
    """Each size that varies at the powers of two of its range, and at one more, the others as in the example.

    Kernels round sizes up to powers of two: their binaries fit what lies between, too.
    """
    sets: list[Sizes] = []
    for size in rules.varied:
        most = size.maximum if size.maximum is not None else max(_MOST_WITHOUT_LIMIT, size.example)
        powers = [1 << power for power in range(most.bit_length() + 1) if size.minimum <= 1 << power <= most]
        for value in dict.fromkeys([*powers, size.minimum, min(most, size.example + 1)]):
            try:
                sets += rules.sets_of([f"{size.name}={value}"])
            except OptionError:
                continue  # a condition on sizes does not hold there
    return tuple(sets)


def _compiled(folder: Path, built: Path, arch: str, sets: Sequence[Sizes], tell: Tell) -> dict[str, Any]:
    words = [
        "-P",
        "-m",
        "longhand.deploy.cubin_worker",
        str(folder),
        str(built),
        arch,
        json.dumps(list(sets)),
    ]
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    listener = Listener(tell)
    result = built / "binaries.json"
    with listener.pipe(environment) as pipe:
        done = subprocess.run(
            [sys.executable, *words],
            env=environment,
            pass_fds=(pipe,),
            capture_output=True,
            text=True,
            timeout=_MOST_SECONDS,
        )
    if done.returncode != 0 or not result.is_file():
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ToolError(f"The kernels cannot be compiled for {arch} ({listener.last or 'starting'}): {said}")
    outcome: dict[str, Any] = json.loads(result.read_text())
    result.unlink()
    if outcome["notes"]:
        raise ToolError(
            f"{folder.name} does not run on tensors without memory, so its launches are unknown: {outcome['notes'][0]}",
            hint="Deploy the unit itself, with a C compiler: Triton compiles its kernels where they run.",
        )
    return outcome
