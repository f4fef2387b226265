"""Judges edited kernels in a process of its own, which they may crash: at the model's sizes, at others, and in time.

``python -m longhand.handoff.judge_worker EDITED RESULT REQUEST`` writes RESULT, and what is known so far to a file
that REQUEST names. References and check.py are those in `.base/`, as longhand wrote them: an edited reference proves
nothing.
"""

from __future__ import annotations

import functools
import json
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from longhand.handoff.call_contract import parameters_of
from longhand.handoff.other_sizes import drawn_ints, fault_of, resized
from longhand.loading import import_file
from longhand.tune.bench import turns_side_by_side
from longhand.tune.faster import FINAL_TURNS, SpeedComparison
from longhand.tune.kernel_times import KernelArguments, recorded_calls, run_calls
from longhand.tune.own_calls import as_the_unit_calls
from longhand.verify.check_worker import trusted_check
from longhand.verify.worker_progress import tell

_MOST_CALLS = 3  # of the model's, whose sizes are changed


def main(edited: Path, result: Path, request: Mapping[str, Any]) -> None:
    """Judges each kernel that is asked for."""
    checks = {}
    for role, folder in (("edited", edited), ("written", Path(request["written"]))):
        package = f"longhand_{role}_unit"
        import_file(package, folder / "__init__.py", [str(folder)])
        checks[role] = trusted_check(folder, package)
    runs: dict[str, Callable[[], Any]] = {}
    samples = _Samples()
    with torch.no_grad():
        calls = recorded_calls(Path(request["current"]), "longhand_current_unit", runs, samples.keep)
        judgements: dict[str, Any] = {}
        for place, name in enumerate(request["kernels"]):
            tell(name, place, len(request["kernels"]))
            judgements[name] = _judged(
                checks, name, calls.get(name, {}), runs, samples.of[name], int(request["seed"])
            )
            Path(request["so_far"]).write_text(json.dumps(judgements))
    result.write_text(json.dumps(judgements))


class _Samples:
    """What kernels are given in the model's calls, as it was before they ran.

    Attributes:
        of: The arguments of some calls, by kernel.
    """

    def __init__(self) -> None:
        self.of: dict[str, list[tuple[Any, ...]]] = defaultdict(list)

    def keep(self, name: str, given: tuple[Any, ...]) -> None:
        """Copies the arguments of a call; what is one memory in it is one in the copy."""
        if len(self.of[name]) < _MOST_CALLS:
            copies: dict[int, torch.Tensor] = {}
            for value in given:
                if isinstance(value, torch.Tensor):
                    copies.setdefault(value.data_ptr(), value.clone())
            self.of[name].append(
                tuple(copies[one.data_ptr()] if isinstance(one, torch.Tensor) else one for one in given)
            )


def _judged(
    checks: Mapping[str, Any],
    name: str,
    calls: Mapping[object, KernelArguments],
    runs: Mapping[str, Callable[[], Any]],
    samples: Sequence[tuple[Any, ...]],
    seed: int,
) -> dict[str, Any]:
    """What is wrong with a kernel; if nothing is, how its time compares."""
    check = checks["edited"]
    rows = check.check_kernels([name])
    wrong = [mismatch for _, _, error, allowed, mismatch in rows if not error <= allowed]
    if wrong or not rows:
        return {"fault": f"it is wrong {wrong[0]}" if wrong else "the unit's check does not call it"}
    fault, n_sizes = _at_other_sizes(checks, name, samples, seed)
    if fault:
        return {"fault": fault}
    new = functools.partial(run_calls, as_the_unit_calls(getattr(check.kernels, name)), calls)
    contestants: dict[str, Callable[[], Any]] = {"new": new, "old": runs[name], "again": runs[name]}
    turns = turns_side_by_side(contestants, device=check.DEVICE, n_turns=FINAL_TURNS, is_paired=True)
    compared = SpeedComparison.of(turns["new"], turns["old"], turns["again"])
    return {
        "fault": "",
        "n_sizes": n_sizes,
        "gain": compared.gain,
        "noise": compared.noise,
        "slower": "" if compared.is_faster else compared.why_not(),
    }


def _at_other_sizes(
    checks: Mapping[str, Any], name: str, samples: Sequence[tuple[Any, ...]], seed: int
) -> tuple[str, int]:
    """What is wrong with a kernel at sizes at which the one that longhand wrote is right; at how many it was tried."""
    chance = random.Random(seed)
    check, written = checks["edited"], checks["written"]
    parameters = parameters_of(check.KERNELS[name][0])
    n_tried = 0
    for sample in samples:
        places = [word for word, value in zip(parameters, sample, strict=True) if isinstance(value, int)]
        for ints in drawn_ints(sample, chance):
            legal = resized(written, name, sample, ints, seed)
            if legal is None or fault_of(written, name, getattr(written.kernels, name), legal):
                continue
            call = resized(check, name, sample, ints, seed)
            assert call is not None
            n_tried += 1
            if fault := fault_of(check, name, getattr(check.kernels, name), call):
                sizes = ", ".join(f"{word}={size}" for word, size in zip(places, ints, strict=True))
                return f"at {sizes}: {fault}", n_tried
    return "", n_tried


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
