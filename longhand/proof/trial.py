"""Runs a unit once before it is kept: on the example, against eager, with weights that tell one layer from another.

What runs is a fork of this process that was made before anything was captured: it has the model, and whatever happens
to it (a kernel may crash) happens to it alone. It forks once more for every run, so that a unit can be tried again
after a kernel of it became PyTorch calls. A CUDA unit on a machine without a GPU runs in Triton's interpreter there;
where there is a GPU, in this process, since CUDA does not survive a fork.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import json
import math
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from longhand.factory import Call
from longhand.loading import import_file
from longhand.options import Device
from longhand.proof.smaller import INTERPRETED_WHOLE, bytes_moved, smaller
from longhand.proof.weights import told_apart
from longhand.staleness.load_time import listed_briefly
from longhand.targets import tensors_of
from longhand.verify.check_worker import trusted_check
from longhand.verify.comparison import Comparison
from longhand.verify.eager_check import compare_whole, eager_noise
from longhand.verify.interpretation import import_on_cpu
from longhand.verify.original import SEED, moved

_PACKAGE = "longhand_tried_unit"
_MOST_TYPICAL = 1e-3  # relative: a result that eager itself gets worse than this says nothing of others
_PLAINLY = 8  # times what `verify` allows: chance does not reach it


class TrialVerdict(enum.Enum):
    """What came of a run."""

    RIGHT = "right"
    WRONG = "wrong"
    CRASHED = "crashed"
    NOT_RUN = "not run"


@dataclasses.dataclass(frozen=True)
class Trial:
    """One run of a unit.

    Attributes:
        verdict: What came of it.
        what: In words: the first result that is wrong, why it was not run, on what part of the example it ran.
        kernels: Kernels that are to blame, and what is wrong with each.
        remark: What PyTorch itself gets wrong of it, and what the unit was held against instead; else empty.
    """

    verdict: TrialVerdict
    what: str = ""
    kernels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    remark: str = ""


def is_plainly_wrong(compared: Comparison) -> bool:
    """Whether a result is so far off that neither rounding nor a tie explains it."""
    if compared.note:  # another shape or type, which errs infinitely, or whole numbers
        return compared.error > _PLAINLY * compared.eager_error
    return compared.eager_error < math.inf and not compared.error <= _PLAINLY * compared.bound


def plainly_wrong(rows: Sequence[Comparison]) -> list[Comparison]:
    """The results of a call that nothing explains.

    Where eager happens to hit one of them exactly, it is held against what eager errs in the others of the call: a
    gradient is a sum of as many roundings as its neighbours.
    """
    own = [row.eager_error / row.scale for row in rows if row.scale > 0]
    typical = max((error for error in own if error < _MOST_TYPICAL), default=0.0)
    return [
        row
        for row in rows
        if is_plainly_wrong(row) and (row.note or not row.error <= _PLAINLY * typical * row.scale)
    ]


class TrialPlace:
    """Where units of one model are tried.

    Args:
        call: The model and its example.
        device: The units' device.
    """

    def __init__(self, call: Call, device: Device) -> None:
        self._call = call
        self._has_gpu = device is Device.CUDA and torch.cuda.is_available()
        self._process = 0  # of the fork, while there is one
        self._why_not = "the process that should run it was ended"
        if not self._has_gpu:
            try:
                self._requests, self._answers, self._process = _forked(
                    call, is_interpreted=device is Device.CUDA
                )
            except OSError as error:  # no memory for a second process, or too many of them
                self._why_not = f"a process that should run it could not be begun: {error.strerror}"

    def __enter__(self) -> TrialPlace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
            os.close(self._requests)
            os.close(self._answers)
            self._process = 0

    def run(self, files: Mapping[str, str | bytes], seconds: float) -> Trial:
        """Tries a unit, for at most so many seconds (on a GPU: however long it takes)."""
        with tempfile.TemporaryDirectory(prefix="longhand-") as scratch:
            folder = Path(scratch) / "unit"
            for path, content in files.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode())
            if self._has_gpu:
                return _on_gpu(folder, self._call)
            return self._ask(folder, seconds)

    def _ask(self, folder: Path, seconds: float) -> Trial:
        if not self._process:
            return Trial(TrialVerdict.NOT_RUN, self._why_not)
        os.write(self._requests, f"{folder}\n".encode())
        heard = b""
        end = time.monotonic() + seconds
        while not heard.endswith(b"\0"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                self.__exit__(None, None, None)
                return Trial(TrialVerdict.NOT_RUN, f"it takes longer than {seconds:.0f} s here")
            some = os.read(self._answers, 65536)
            if not some:
                return Trial(TrialVerdict.NOT_RUN, "the process that should run it died")
            heard += some
        return _read(heard)


def _read(heard: bytes) -> Trial:
    """What a run said: the names of kernels as it entered them, then what came of it."""
    *entered, last = heard.rstrip(b"\0").decode().split("\n")
    answer = json.loads(last)
    verdict = TrialVerdict(answer["verdict"])
    if verdict is TrialVerdict.CRASHED and entered:
        name = entered[-1]
        return Trial(verdict, f"{answer['what']} in {name}", {name: answer["what"]})
    return Trial(verdict, answer["what"], answer["kernels"], answer["remark"])


def _forked(call: Call, *, is_interpreted: bool) -> tuple[int, int, int]:
    """A fork of this process that tries the units whose folders it is told: where to write, where to read, its id."""
    sys.stdout.flush()
    sys.stderr.flush()
    requests, to_child = os.pipe()
    from_child, answers = os.pipe()
    try:
        process = os.fork()
    except OSError:
        for end in (requests, to_child, from_child, answers):
            os.close(end)
        raise
    if process:
        os.close(requests)
        os.close(answers)
        with contextlib.suppress(OSError):
            os.setpgid(process, process)  # whoever of the two is first
        return to_child, from_child, process
    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        os.close(to_child)
        os.close(from_child)
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        with os.fdopen(requests) as folders:
            for line in folders:
                _try_in_fork(Path(line.strip()), call, answers, is_interpreted)
    finally:
        os._exit(0)


def _try_in_fork(folder: Path, call: Call, answers: int, is_interpreted: bool) -> None:
    """Tries a unit in a process of its own, twice if that dies: a unit for one size may, on a part of its call."""
    for may_cut in (True, False):
        process = os.fork()
        if process == 0:
            try:
                _answer(folder, call, answers, is_interpreted, may_cut)
            finally:
                os._exit(0)
        _, status = os.waitpid(process, 0)
        code = os.waitstatus_to_exitcode(status)
        if not code:
            break
    if code:
        os.write(answers, _line(Trial(TrialVerdict.CRASHED, f"crashes the process (signal {-code})")))
    os.write(answers, b"\0")


def _answer(folder: Path, call: Call, answers: int, is_interpreted: bool, may_cut: bool) -> None:
    torch.set_num_threads(1)  # OpenMP's threads are not there after a fork
    if is_interpreted:
        _interpret_triton()
    try:
        outcome = _tried(
            folder, call, lambda name: os.write(answers, f"{name}\n".encode()), is_interpreted, may_cut
        )
    except Exception as error:
        outcome = _of_error(folder, error)
    os.write(answers, _line(outcome))


def _interpret_triton() -> None:
    """Lets this process import triton anew, as its interpreter: triton's own functions are interpreted, too."""
    os.environ["TRITON_INTERPRET"] = "1"
    loaded = [name for name in sys.modules if name == "triton" or name.startswith("triton.")]
    for name in loaded:
        if not name.startswith("triton._C"):
            del sys.modules[name]


def _line(trial: Trial) -> bytes:
    return json.dumps(dataclasses.asdict(trial) | {"verdict": trial.verdict.value}).encode()


def _on_gpu(folder: Path, call: Call) -> Trial:
    try:
        with torch.random.fork_rng():
            copied = moved(Call(copy.deepcopy(call.model), call.args, call.kwargs), "cuda")
            return _tried(folder, copied, lambda _: None, is_interpreted=False)
    except torch.OutOfMemoryError:
        return Trial(
            TrialVerdict.NOT_RUN, "the GPU's memory does not hold the model twice, and once in float64"
        )
    finally:
        _forget()


def _forget() -> None:
    """Takes the modules of the unit that was tried before out of this process: the next has the same names."""
    for name in [name for name in sys.modules if name == _PACKAGE or name.startswith(f"{_PACKAGE}.")]:
        del sys.modules[name]


def _tried(
    folder: Path, call: Call, enter: Callable[[str], Any], is_interpreted: bool, may_cut: bool = True
) -> Trial:
    if any(
        isinstance(leaf, torch.Tensor) and leaf.is_meta
        for leaf in tensors_of(call.model, call.args, call.kwargs)
    ):
        return Trial(TrialVerdict.NOT_RUN, "the example has shapes and no values")
    torch.manual_seed(SEED)
    _forget()
    if is_interpreted:
        package, call = import_on_cpu(_PACKAGE, folder), moved(call, "cpu")
    else:
        package = import_file(_PACKAGE, folder / "__init__.py", [str(folder)])
    told_apart(call.model)
    _announce(package, enter)
    unit = getattr(package, package.__all__[0])
    is_large = may_cut and is_interpreted and bytes_moved(folder) > INTERPRETED_WHOLE
    part = smaller(call) if is_large else None
    if part is not None:
        with contextlib.suppress(Exception):  # the unit may be for this size alone
            rows = compare_whole(folder, unit, part.call)
            if not _unexplained(rows, folder, part.call):
                return Trial(TrialVerdict.RIGHT, part.how, remark=_of_torch(rows))
    try:
        rows = compare_whole(folder, unit, call)
        wrong = _unexplained(rows, folder, call)
    except Exception as error:
        return _of_error(folder, error)
    if not wrong:
        return Trial(TrialVerdict.RIGHT, remark=_of_torch(rows))
    what = f"{wrong[0].name} is wrong {wrong[0].note or wrong[0].mismatch}".strip()
    return Trial(TrialVerdict.WRONG, what, _wrong_kernels(folder, is_interpreted))


def wrong_results(folder: Path, unit: object, call: Call) -> list[Comparison]:
    """The results that nothing explains, not even what eager moves by where weights and arguments move by a bit."""
    return _unexplained(compare_whole(folder, unit, call), folder, call)


def _unexplained(rows: Sequence[Comparison], folder: Path, call: Call) -> list[Comparison]:
    wrong = plainly_wrong(rows)
    if all(row.note for row in wrong):
        return wrong
    noise = eager_noise(folder, call, {row.name: row.error / _PLAINLY for row in wrong if not row.note})
    return [row for row in wrong if row.note or not row.error <= _PLAINLY * noise.get(row.name, 0.0)]


def _of_torch(rows: Sequence[Comparison]) -> str:
    """What PyTorch gets wrong of a call, and of which results; empty if nothing."""
    return "; ".join(
        f"{listed_briefly([row.name for row in rows if row.remark == remark])}: {remark}"
        for remark in dict.fromkeys(row.remark for row in rows if row.remark)
    )


def _of_error(folder: Path, error: Exception) -> Trial:
    """The unit's failure, or the original's, or this machine's."""
    if type(error).__name__ == "KernelBuildError":  # a class of the unit's own: there is no compiler
        return Trial(TrialVerdict.NOT_RUN, f"its kernels cannot be built here: {error}")
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(str(folder)):
            line = f"{Path(trace.tb_frame.f_code.co_filename).relative_to(folder)}:{trace.tb_lineno}"
            return Trial(TrialVerdict.WRONG, f"it raises {type(error).__name__}: {error} ({line})")
        trace = trace.tb_next
    return Trial(TrialVerdict.NOT_RUN, f"the original does not run here: {type(error).__name__}: {error}")


def _announce(package: Any, enter: Callable[[str], Any]) -> None:
    """Tells of each kernel before it runs: of the last one if it crashes."""
    kernels = getattr(package, "kernels", None)
    if kernels is None:  # library calls alone
        return

    def announced(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            enter(name)
            return kernel(*args, **named)

        return run

    for name in kernels.__all__:
        setattr(kernels, name, announced(name, getattr(kernels, name)))


def _wrong_kernels(folder: Path, is_interpreted: bool) -> dict[str, str]:
    """The kernels that do not compute what their references do, within a call of the unit on random tensors."""
    with contextlib.suppress(Exception):
        check = trusted_check(folder, _PACKAGE)
        if is_interpreted:
            check.DEVICE = "cpu"
        rows = check.check_kernels(list(check.KERNELS))
        return {
            name: f"wrong {mismatch} (error {error:.2g}, allowed {allowed:.2g})"
            for name, _, error, allowed, mismatch in rows
            if not error <= _PLAINLY * allowed
        }
    return {}
