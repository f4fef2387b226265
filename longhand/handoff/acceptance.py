"""`longhand accept`: judges edits of kernels that were handed off, and installs those that are right and faster.

Whoever edited is judged the same way: a person, a search, a language model. What is installed is an edit like any
other, which `generate` keeps and merges.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from longhand.emit.unit.lock_file import LOCK, is_path, read_regular
from longhand.emit.unit.on_disk import BASE, replace_files, sole
from longhand.errors import NotRunHereError, UnitError
from longhand.handoff.writing import CONTRACT
from longhand.staleness.model_check import broken_edits
from longhand.tune.worker import copy_unit
from longhand.verify.checking import is_interpreted, run_worker
from longhand.verify.worker_progress import Tell, no_progress


@dataclasses.dataclass(frozen=True)
class Judgement:
    """What came of one edited kernel.

    Attributes:
        kernel: Its name.
        refusal: Why it is refused, in words; empty if it is accepted.
        gain: The part of its time that it saves, where it was timed.
        noise: The part of that which may be chance.
        n_sizes: At how many sets of sizes beside the model's it was right.
    """

    kernel: str
    refusal: str = ""
    gain: float = 0.0
    noise: float = 0.0
    n_sizes: int = 0

    def __str__(self) -> str:
        if self.refusal:
            return f"{self.kernel}: refused: {self.refusal}"
        return (
            f"{self.kernel}: accepted: {100 * self.gain:.1f}% faster (noise {100 * self.noise:.1f}%), right at "
            f"{self.n_sizes} other sets of sizes"
        )


def accept(
    folder: Path,
    unit: Path | None = None,
    *,
    installs: bool = True,
    seed: int | None = None,
    tell: Tell = no_progress,
) -> tuple[Judgement, ...]:
    """Judges each kernel that was edited in a folder of `longhand handoff`, and installs what passes into the unit.

    Args:
        folder: What `hand_off` wrote, edited since.
        unit: Where the unit is now; by default where it was.
        installs: Otherwise it is only judged.
        seed: Decides which other sizes are tried; by default drawn anew each time, so that no edit is made for them.
        tell: Is told what is being done.

    Raises:
        UnitError: It is no such folder, nothing was edited, or the unit cannot run.
        NotRunHereError: The unit is for a device that this machine lacks.
    """
    contract = _read(folder)
    unit = (unit or folder / contract["unit"]).resolve()
    if is_interpreted(unit):
        raise NotRunHereError(
            f"{unit} is for CUDA: what its kernels take is to be measured where there is a GPU."
        )
    edits, judged = _edits(folder, unit, contract)
    with tempfile.TemporaryDirectory(prefix="longhand-accept-") as scratch:
        edited = Path(scratch) / "edited"
        copy_unit(unit, edited, has_base=True)
        _put(edited, [path for paths in edits.values() for path in paths], folder)
        for breach in broken_edits(edited):
            kernel = PurePosixPath(breach.path).stem
            if kernel in edits:
                judged[kernel] = Judgement(kernel, str(breach))
                _put(edited, edits.pop(kernel), unit)
        if edits:
            chosen = random.SystemRandom().getrandbits(32) if seed is None else seed
            judged |= _judged(edited, unit, Path(scratch), list(edits), chosen, tell)
    if installs:
        for kernel, paths in edits.items():
            if not judged[kernel].refusal:
                _put(unit, paths, folder)
    return tuple(judged[kernel] for kernel in sorted(judged))


def _read(folder: Path) -> dict[str, Any]:
    """The contract of a folder.

    Raises:
        UnitError: There is none that can be read.
    """
    try:
        contract: dict[str, Any] = json.loads(read_regular(folder / CONTRACT))
        paths = [path for kernel in contract["kernels"].values() for path in kernel["files"]]
        if isinstance(contract["unit"], str) and all(is_path(path) for path in paths):
            return contract
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise UnitError(
        f"{folder} is no folder of `longhand handoff`: it has no {CONTRACT} that can be read.",
        hint="Make one: longhand handoff DIR --out FOLDER.",
    )


def _edits(
    folder: Path, unit: Path, contract: Mapping[str, Any]
) -> tuple[dict[str, list[str]], dict[str, Judgement]]:
    """The files that were edited, by kernel, and those kernels that cannot be judged."""
    edits: dict[str, list[str]] = {}
    refused: dict[str, Judgement] = {}
    for kernel, one in contract["kernels"].items():
        missing = [path for path in one["files"] if not (folder / path).is_file()]
        changed = [
            path
            for path, digest in one["files"].items()
            if path not in missing and _digest(folder / path) != digest
        ]
        moved = [path for path, digest in one["files"].items() if _digest(unit / path) != digest]
        if missing:
            refused[kernel] = Judgement(kernel, f"{missing[0]} is missing")
        elif changed and moved:
            words = f"the unit's {moved[0]} is another since it was handed off: hand it off again"
            refused[kernel] = Judgement(kernel, words)
        elif changed:
            edits[kernel] = changed
    if not edits and not refused:
        raise UnitError(f"Nothing was edited in {folder}.", hint="Edit the files in its folder kernels.")
    return edits, refused


def _digest(path: Path) -> str:
    return hashlib.sha256(read_regular(path)).hexdigest() if path.is_file() else ""


def _put(unit: Path, paths: Sequence[str], source: Path) -> None:
    with sole(unit):
        replace_files(unit, {path: read_regular(source / path) for path in paths})


def _judged(
    edited: Path, unit: Path, scratch: Path, kernels: list[str], seed: int, tell: Tell
) -> dict[str, Judgement]:
    """What came of running the kernels; one that ends the process is refused, and the others run once more."""
    written, so_far = scratch / "written", scratch / "so_far.json"
    shutil.copytree(unit / BASE, written)
    shutil.copyfile(unit / LOCK, written / LOCK)
    for path in unit.glob("*.pt"):
        (written / path.name).symlink_to(path)
    judgements: dict[str, Judgement] = {}
    while left := [kernel for kernel in kernels if kernel not in judgements]:
        request = {
            "written": str(written),
            "current": str(unit),
            "so_far": str(so_far),
            "kernels": left,
            "seed": seed,
        }
        so_far.write_text("{}")
        try:
            run_worker("longhand.handoff.judge_worker", edited, json.dumps(request), tell=tell)
        except NotRunHereError:
            raise
        except UnitError as error:
            judgements |= _judgements(so_far)
            died = next(kernel for kernel in left if kernel not in judgements)
            judgements[died] = Judgement(died, error.what.replace(f"{edited} ", "it "))
        else:
            judgements |= _judgements(so_far)
    return judgements


def _judgements(so_far: Path) -> dict[str, Judgement]:
    return {
        kernel: Judgement(
            kernel,
            one["fault"] or one["slower"],
            one.get("gain", 0.0),
            one.get("noise", 0.0),
            one.get("n_sizes", 0),
        )
        for kernel, one in json.loads(so_far.read_text()).items()
    }
