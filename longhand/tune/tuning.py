"""`longhand tune`: searches the tunables of a unit's kernels on this device, and edits their files as a person would.

**What is tuned.** The plain numbers in the block of tunables of each kernel's file: thread and block sizes, warps,
stages. A number that differs from `.base/` was set by a person and is left alone, unless `--all`. Numbers that `tune`
set itself are noted in the lock (`tuned`), so the next run may move them again; to everything else (merge, diff,
check) they are edits like any other. Ejected files, and files that wait for a conflict to be settled, are left alone.

**How it is measured.** A worker process (`tune_worker.py`) runs the model once on the unit's own example inputs and
keeps what each kernel is called with, at every set of sizes. A candidate must build, must not spill registers, and
must compute, in each of these calls, what longhand's reference from `.base/` says; otherwise it is skipped, with the
reason. Then its time for all calls together is taken in turns with the kernel as it stands, and what counts is the
median of the ratios turn by turn: a machine that gets slower gets slower for both. The worker may crash or hang: that
too skips the candidate, and another worker goes on.

**What is written.** The search (`tune_search.py`) proposes one winner per kernel. It meets the old kernel again, in
more turns, beside a second copy of the old one. The noise is the larger of two numbers: how far the two copies of the
old kernel are apart, and the half-width of the 95% interval of the median ratio. The winner is written only if it is
faster by more than the noise, by at least 2%, and in four of five turns. Files are written one by one, each with the
lock in one step, as soon as it is settled: whoever interrupts keeps what was found. A file that somebody saved
meanwhile is left alone.

The costliest kernels come first. The budget is all the time there is: starting the worker, building the unit, and
the last comparison of each kernel are in it. Each kernel may use an equal part of what is left; a candidate is begun
only if the longest so far, and a last comparison, would still fit.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import torch

from longhand.emit.unit.lock_file import LOCK, lock_text, read_lock, settled_lock
from longhand.emit.unit.merge import refuse
from longhand.emit.unit.on_disk import NEW, UnitOnDisk, content_of, read_unit, replace_files, sole
from longhand.errors import UnitError
from longhand.staleness.model_check import broken_edits
from longhand.tune.contest import Contest, KernelCourse, TimeUpError
from longhand.tune.faster import FINAL_TURNS, SpeedComparison
from longhand.tune.search import Values, search
from longhand.tune.tunable_text import read_values, tunable_names, with_values

_LEAST_FINAL_SECONDS = 1.6  # three contestants, and no turn is shorter than 20 ms
_TIME_UP_AT_ONCE = "the time was up while the unit was built and started: give it a larger --budget"
_SEARCH_TURNS = 7
Tell = Callable[[str], None]


@dataclasses.dataclass(frozen=True, repr=False)
class Tuning:
    """What became of one kernel.

    Attributes:
        kernel: Its name.
        path: The file that holds its tunables, relative to the unit.
        before: The tunables that were there.
        after: The same now.
        ms_before: Of all its calls in one call of the model; None where it was not measured.
        ms_after: With `after`, measured in turns with the one before.
        noise: The part of a time that may be chance.
        bytes_moved: In the same calls.
        n_tried: Candidates that were measured.
        skipped: (values, why) of candidates that cannot be.
        note: Why nothing changed, and what was left alone; may be empty.
    """

    kernel: str
    path: str
    before: Mapping[str, int | None]
    after: Mapping[str, int | None]
    ms_before: float | None = None
    ms_after: float | None = None
    noise: float = 0.0
    bytes_moved: int = 0
    n_tried: int = 0
    skipped: tuple[tuple[dict[str, int], str], ...] = ()
    note: str = ""

    def __repr__(self) -> str:
        changes = [
            f"{name} {value} -> {self.after[name]}"
            for name, value in self.before.items()
            if value != self.after[name]
        ]
        outcome = ", ".join(changes) if self.is_changed else "kept"
        return f"<Tuning {self.kernel}: {outcome}; {self.n_tried} tried>"

    @property
    def is_changed(self) -> bool:
        """Whether the file was edited."""
        return dict(self.before) != dict(self.after)


def tune(
    folder: Path,
    kernels: Sequence[str] = (),
    *,
    includes_persons: bool = False,
    budget: float = 120.0,
    tell: Tell = lambda _: None,
) -> Iterator[Tuning]:
    """Tunes a unit's kernels one after the other; each is written before it is yielded.

    Args:
        folder: The unit.
        kernels: Only these.
        includes_persons: Also change what a person set.
        budget: Seconds, for all of it.
        tell: Is told what is being tried.

    Raises:
        UnitError: There is no such unit or kernel, or the unit cannot run here.
        EditError: An edit breaks what other files rely on.
    """
    end = time.monotonic() + budget
    lock = settled_lock(folder)
    known = lock.get("kernels", {})
    if unknown := [name for name in kernels if name not in known]:
        raise UnitError(
            f"{folder} has no kernel {unknown[0]!r}.", hint=f"It has: {', '.join(sorted(known))}."
        )
    if lock.get("device") == "cuda" and not torch.cuda.is_available():
        raise UnitError(
            f"{folder} is for CUDA and this machine has no GPU that torch can use: times of its kernels can only be "
            "taken on one.",
            hint="Run longhand tune where there is one. Nothing was changed.",
        )
    refuse(broken_edits(folder), folder)
    return _tuned(folder, list(kernels or sorted(known)), includes_persons, end, tell)


def _tuned(
    folder: Path, names: list[str], includes_persons: bool, end: float, tell: Tell
) -> Iterator[Tuning]:
    traffic = read_lock(folder).get("traffic", {})
    files = [_TunedFile(folder, name, includes_persons) for name in names]
    for file in files:
        if not file.free:
            yield file.left_alone()
    files = [file for file in files if file.free]
    if not files:
        return
    tell("starting")
    try:
        started = Contest(folder, end).start()
    except TimeUpError:
        yield from (file.left_alone(_TIME_UP_AT_ONCE) for file in files)
        return
    with started as contest:
        for file in [file for file in files if file.kernel not in contest.n_calls]:
            yield file.left_alone("the unit's example call does not call it")
        files = [file for file in files if file.kernel in contest.n_calls]
        cost = {file.kernel: contest.seconds(file.path) for file in files}
        files.sort(key=lambda file: -cost[file.kernel])
        for number, file in enumerate(files):
            now = time.monotonic()
            moved = int(traffic.get(file.kernel, (0, 0))[1])
            if now + _LEAST_FINAL_SECONDS > end:
                yield file.left_alone("the time was up")
                continue
            yield _tune_one(file, contest, now + (end - now) / (len(files) - number), moved, tell)


def _tune_one(file: _TunedFile, contest: Contest, deadline: float, bytes_moved: int, tell: Tell) -> Tuning:
    def tell_values(values: Values) -> None:
        changed = [f"{name} {value}" for name, value in values.items() if value != file.values[name]]
        tell(f"{file.kernel}: {', '.join(changed)}")

    plain = {name: value for name, value in file.values.items() if value is not None}
    course = _TimedCourse(KernelCourse(contest, file.path, plain, _SEARCH_TURNS))
    outcome = search(
        file.start,
        file.free,
        course,
        is_over=lambda: time.monotonic() + course.longest + course.final > deadline,
        tell=tell_values,
    )
    tell(f"{file.kernel}: comparing")
    old, again, new = contest.turns(file.path, [file.start, file.start, outcome.best], FINAL_TURNS)
    compared = SpeedComparison.of(new, old, again)
    notes = [file.note, "" if outcome.is_complete else "the time was up"]
    after, ms_before = dict(file.values), statistics.median(old) * 1e3
    ms_after = ms_before
    if outcome.best != file.start:
        if not compared.is_faster:
            notes.append(f"best: {_in_words(outcome.best, file.start)}, {compared.why_not()}")
        elif file.write(outcome.best):
            after, ms_after = {**file.values, **outcome.best}, ms_before * (1 - compared.gain)
        else:
            notes.append("it was saved by somebody else meanwhile: left alone")
    elif outcome.is_complete:
        notes.append("nothing that was tried is faster")
    return Tuning(
        file.kernel,
        file.path,
        file.values,
        after,
        ms_before,
        ms_after,
        compared.noise,
        bytes_moved,
        outcome.n_tried,
        outcome.skipped,
        "; ".join(filter(None, notes)),
    )


class _TimedCourse:
    """A course that remembers how long its measurements take.

    Attributes:
        longest: Seconds of the longest candidate, its build and its check included.
        final: About what the last comparison takes.
    """

    def __init__(self, course: KernelCourse) -> None:
        self.longest, self.final = 0.0, _LEAST_FINAL_SECONDS
        self._course = course
        self._checked = 0.0

    def refusal(self, values: Values) -> str | None:
        """Why these values cannot be; None if they can."""
        begin = time.monotonic()
        reason = self._course.refusal(values)
        self._checked = time.monotonic() - begin
        self.longest = max(self.longest, self._checked)
        return reason

    def ratio(self, values: Values) -> float:
        """Their time over that of the start."""
        begin = time.monotonic()
        ratio = self._course.ratio(values)
        seconds = time.monotonic() - begin
        self.longest = max(self.longest, self._checked + seconds)
        self.final = max(self.final, seconds * 3 * FINAL_TURNS / (2 * _SEARCH_TURNS))
        return ratio


def _in_words(values: Values, start: Values) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value != start[name])


class _TunedFile:
    """The file that holds a kernel's tunables, as it was at the beginning."""

    def __init__(self, folder: Path, kernel: str, includes_persons: bool) -> None:
        disk = read_unit(folder)
        is_cpp = f"kernels/{kernel}.cpp" in disk.files
        self.folder, self.kernel = folder, kernel
        self.path = f"kernels/{kernel}{'.cpp' if is_cpp else '.py'}"
        self._content = disk.files.get(self.path, b"")
        bases = [base.decode(errors="replace") for base in disk.bases(self.path)]
        names = tunable_names(bases[0], self.path) if bases else ()
        self.values = read_values(self._content.decode(errors="replace"), self.path, names)
        persons = self._persons(disk, bases, names)
        self.note = self._reason(disk, names)
        self.free: tuple[str, ...] = ()
        if not self.note:
            plain = [name for name in names if self.values[name] is not None]
            self.free = tuple(name for name in plain if includes_persons or name not in persons)
            kept = [name for name in names if name not in self.free]
            self.note = f"a person set {', '.join(kept)}" if kept else ""

    @property
    def start(self) -> dict[str, int]:
        """The values of the tunables that may change."""
        return {name: value for name in self.free if (value := self.values[name]) is not None}

    def left_alone(self, reason: str = "") -> Tuning:
        """The kernel as it is."""
        return Tuning(
            self.kernel,
            self.path,
            self.values,
            self.values,
            note="; ".join(filter(None, (self.note, reason))),
        )

    def write(self, values: Values) -> bool:
        """Sets the tunables, in one step; False if the file is no longer what it was."""
        with sole(self.folder):
            if content_of(self.folder / self.path) != self._content:
                return False
            text = with_values(self._content.decode(), self.path, values)
            lock = settled_lock(self.folder)
            lock.setdefault("tuned", {}).setdefault(self.path, {}).update(values)
            # The lock first, where they cannot change at once: a value that is not there yet does no harm.
            changed = {LOCK: lock_text(lock).encode(), self.path: text.encode()}
            replace_files(self.folder, changed)
        return True

    def _persons(self, disk: UnitOnDisk, bases: list[str], names: tuple[str, ...]) -> set[str]:
        """The tunables that are neither what longhand wrote nor what it tuned."""
        written = [read_values(base, self.path, names) for base in bases]
        written.append(dict(disk.tuned.get(self.path, {})))
        return {name for name in names if all(self.values[name] != own.get(name) for own in written)}

    def _reason(self, disk: UnitOnDisk, names: tuple[str, ...]) -> str:
        """Why the whole file is left alone; empty if it is not."""
        if self.path in disk.ejected:
            return "ejected"
        if f"{self.path}{NEW}" in disk.files:
            return f"a conflict waits in {self.path}{NEW}"
        return "" if names else "it has no tunables"
