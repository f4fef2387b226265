"""`longhand verify`: a unit against the eager original, and each of its kernels against its reference.

Of a unit with a backward pass the gradients are compared, too.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from longhand.emit.unit.lock_file import read_lock
from longhand.emit.unit.merge import refuse
from longhand.errors import LonghandError, UnitError
from longhand.loading import load
from longhand.proof.smaller import INTERPRETED_WHOLE, bytes_moved
from longhand.staleness.file_check import Staleness
from longhand.staleness.load_time import changed_sources, listed_briefly
from longhand.staleness.model_check import broken_edits, check
from longhand.verify.checking import KernelCheck, check_kernels, is_interpreted, run_worker
from longhand.verify.comparison import Comparison
from longhand.verify.eager_check import compare_at_sizes, compare_within_noise
from longhand.verify.original import original_of
from longhand.verify.varied_sizes import SizeRules, Sizes, in_words
from longhand.verify.worker_progress import Tell, no_progress


@dataclasses.dataclass(frozen=True, repr=False)
class Verification:
    """What was compared.

    Attributes:
        whole: The unit's results, what it wrote into its inputs and, of a unit that trains, the gradients, against
            eager and float64.
        kernels: Each kernel, at each set of sizes that it is called with, against longhand's own reference, and the
            model against itself on references.
        is_interpreted: A CUDA unit ran on the CPU, its kernels in Triton's interpreter.
        part: On what part of the example that was, in words; empty if on all of it.
        seconds: What comparing the whole with the original took.
        sizes: What else sizes that vary were, beside the example's: ``batch=7``.
        stale: Where something is wrong: why that may be the model's doing and not the unit's, in words; else empty.
    """

    whole: tuple[Comparison, ...]
    kernels: tuple[KernelCheck, ...]
    is_interpreted: bool = False
    part: str = ""
    seconds: float = 0.0
    stale: str = ""
    sizes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        wrong = [f"{one.name}{f' at {one.at}' if one.at else ''}" for one in self.kernels if not one.is_right]
        wrong += [one.name for one in self.whole if not one.is_right]
        verdict = f"WRONG: {', '.join(wrong[:3])}" if wrong else "right"
        n_kernels = len({one.name for one in self.kernels})
        return (
            f"<Verification {verdict}; {len(self.whole)} results, {n_kernels} kernels and tensors compared>"
        )

    @property
    def is_right(self) -> bool:
        """Whether all passed."""
        return all(check.is_right for check in self.kernels) and all(one.is_right for one in self.whole)


def verify(
    folder: Path,
    factory: str | None = None,
    kernels: Sequence[str] = (),
    *,
    sizes: Sequence[str] = (),
    tell: Tell = no_progress,
) -> Verification:
    """Runs the unit, its original and its own checks; a CUDA unit in Triton's interpreter where there is no GPU.

    Args:
        folder: The unit.
        factory: ``MODULE:FACTORY``; by default the one that the lock names.
        kernels: Only these kernels, and not the whole.
        sizes: ``batch=1,7``: what sizes that vary are to be beside the example's; a few at random if empty, and
            ``none`` for none.
        tell: Is told what is being done.

    Raises:
        OptionError: A size is none that varies, or out of its range.
        UnitError: There is no such unit, or it cannot run here.
        EditError: An edit breaks what other files rely on.
        FactoryError: The original cannot be made again.
        ToolError: The C++ compiler is missing or refuses a kernel.
    """
    lock = read_lock(folder)
    known = lock.get("kernels", {})
    if unknown := [name for name in kernels if name not in known]:
        raise UnitError(
            f"{folder} has no kernel {unknown[0]!r}.", hint=f"It has: {', '.join(sorted(known))}."
        )
    refuse(broken_edits(folder), folder)
    sets = _sets(folder, lock, sizes)
    words = tuple(map(in_words, sets))
    if kernels:
        checks = check_kernels(folder, kernels, sets, tell)
        return Verification((), checks.kernels, is_interpreted(folder), checks.part, sizes=words)
    checks = check_kernels(
        folder, (), sets, tell
    )  # first: in a process of its own, which may crash and is ended in time
    begin = time.perf_counter()
    try:
        whole, part = _compared_whole(folder, factory, sets, tell)
    except LonghandError:
        raise
    except Exception as error:
        # A model of another shape or with other parameters: the unit cannot even be given what it has.
        if reason := _why_stale(folder, factory):
            raise UnitError(
                f"{folder} cannot run on its model ({type(error).__name__}): {reason}.",
                hint=f"Bring it up to date: longhand generate; `longhand check {folder}` tells what would change.",
            ) from error
        raise
    seconds = time.perf_counter() - begin
    result = Verification(
        whole, checks.kernels, is_interpreted(folder), part or checks.part, seconds, sizes=words
    )
    if all(one.is_right for one in whole):
        return result
    return dataclasses.replace(result, stale=_why_stale(folder, factory))


def _sets(folder: Path, lock: Mapping[str, Any], texts: Sequence[str]) -> tuple[Sizes, ...]:
    """The sets of sizes to try; in the interpreter, which takes a millisecond a program, smaller ones alone."""
    rules = SizeRules.of(lock)
    if texts:
        return rules.sets_of(texts)
    if is_interpreted(folder) and bytes_moved(folder) > INTERPRETED_WHOLE:
        return ()
    return rules.drawn(only_smaller=is_interpreted(folder))


def _compared_whole(
    folder: Path, factory: str | None, sets: Sequence[Sizes], tell: Tell
) -> tuple[tuple[Comparison, ...], str]:
    """The comparisons, and on what part of the example they were made, in words."""
    if is_interpreted(folder):
        outcome = run_worker(
            "longhand.verify.interpreted_worker",
            folder,
            json.dumps(list(sets)),
            *([factory] if factory else []),
            tell=tell,
        )
        return tuple(Comparison(**row) for row in outcome["rows"]), str(outcome["part"])
    tell("the model against eager", 0, 1 + len(sets))
    unit, call = load(folder, check=False), original_of(folder, factory)
    return (*compare_within_noise(folder, unit, call), *compare_at_sizes(folder, unit, call, sets, tell)), ""


def _why_stale(folder: Path, factory: str | None) -> str:
    """Why a unit is of an earlier state of its model, in words; empty if it is not."""
    lock = read_lock(folder)
    if changed := changed_sources(lock, folder):
        return f"{listed_briefly(changed)} changed since it was generated"
    if factory is not None:
        return ""  # another model than the lock's may be meant
    checked = check(folder)
    if checked.staleness is not Staleness.STALE:
        return ""
    files = listed_briefly([change.path for change in checked.changes])
    return f"its model generates other code today ({files})"
