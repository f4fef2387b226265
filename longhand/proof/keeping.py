"""Decides whether a unit that was run is kept: with kernels that are wrong as PyTorch calls, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from longhand.emit.unit.torch_kernels import InTorch
from longhand.errors import VerificationError
from longhand.proof.launches import kernel_names
from longhand.proof.trial import TrialPlace, TrialVerdict
from longhand.telling.clock import Clock

_LEAST = 5.0  # seconds that a run may take however fast the unit was made


def tried(
    stage: TrialPlace,
    files: dict[str, str | bytes],
    in_torch: Mapping[str, InTorch],
    emit: Callable[[Mapping[str, InTorch]], dict[str, str | bytes]],
    clock: Clock,
) -> tuple[dict[str, str | bytes], str]:
    """The unit as it may be kept, and what came of running it.

    It may take half of the time that the unit has taken so far.

    Args:
        stage: Where it runs.
        files: The unit.
        in_torch: By key, the kernels that are PyTorch calls already.
        emit: Prints the unit with these kernels as PyTorch calls.
        clock: Says what the unit has taken, and is told of this.

    Raises:
        VerificationError: It does not compute what eager does, and no kernel of it is to blame.
    """
    seconds = max(_LEAST, clock.timings().total / 2)
    bad = dict(in_torch)
    while True:
        with clock.stage("run"):
            trial = stage.run(files, seconds)
        keys = {name: key for key, name in kernel_names(files).items()}
        blamed = {
            keys[name]: InTorch("fails where it is run", words)
            for name, words in trial.kernels.items()
            if keys[name] not in bad
        }
        if not blamed:
            break
        bad |= blamed
        files = emit(bad)
    if trial.verdict in (TrialVerdict.WRONG, TrialVerdict.CRASHED):
        raise VerificationError(
            f"the unit that was made does not compute what the model does: {trial.what}.",
            hint="Nothing was written. This is a bug in longhand: please report it with the model's code. "
            "--no-run (run=False) keeps the unit all the same, to look at.",
        )
    if trial.verdict is TrialVerdict.NOT_RUN:
        return files, f"not run: {trial.what}. `longhand verify` runs it."
    told = f"run once, {trial.what or 'on the example'}: it computes what eager does"
    return files, f"{told}, except for {trial.remark}" if trial.remark else told
