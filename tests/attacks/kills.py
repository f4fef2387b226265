"""``python -m tests.attacks.kills 1000 -j 8``: two processes on one unit and cache, killed at random.

With ``-j``, so many units, each with a folder, a cache and two processes of its own; ``--seed`` draws other moments.
With ``--budget 480`` it kills for seven minutes and ends with what was killed until then; the last run that nobody
kills takes what it needs, which on a machine with much else to do may be more than the budget has left. A run hangs
where it does not want the processor any more, not where it is slow. What was lost stays in its folder.

Each runs generate, ejects and their undoing, tune or a compiled call, and gets SIGKILL. After each pair every file of
the unit is as some complete run wrote it. After each few pairs, on top of what they left, a run that nobody kills
brings the unit up to date and tidies up, and a compiled call that nobody kills is right with the cache that they left.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import json
import multiprocessing
import os
import queue
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import longhand
from longhand.emit.unit.lock_file import LOCK
from longhand.errors import LonghandError
from longhand.staleness.eject import eject
from longhand.tune.tuning import tune
from tests.attacks.watching import run_watched
from tests.longhand import pair_models

VERSIONS = ("first", "op after")
COMMANDS = ("generate", "generate", "renew", "eject", "tune", "compile")
KERNEL = "kernels/add_and_layer_norm.cpp"
LONGEST = 6.0  # seconds until a kill
TUNING_SECONDS = 20.0
PAIRS = 4  # between runs that nobody kills
ENDING = 60.0  # seconds of the budget for a last pair and a last run; on an idle machine they take half of it


def run(command: str, out: Path, source: random.Random) -> None:
    """One command, as the command line runs it."""
    match command:
        case "generate":
            pair_models.generate(source.choice(VERSIONS), out)
        case "renew":
            for version in VERSIONS:
                pair_models.generate(version, out)
        case "eject":
            until = (
                time.monotonic() + 60
            )  # each takes milliseconds: until the kill, or until the sweep was killed
            while time.monotonic() < until:
                with contextlib.suppress(LonghandError):  # the other process was between
                    eject(out / KERNEL)
                    eject(out / KERNEL, undo=True)
        case "tune":
            for _ in tune(out, budget=TUNING_SECONDS):
                pass
        case "compile":
            model, args = pair_models.make(source.choice(VERSIONS))
            with torch.no_grad():
                compiled = longhand.compile(model)
                torch.testing.assert_close(compiled(*args), model(*args))


def start(command: str, out: Path, seed: int) -> int:
    """The process id of a child that runs a command."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    with contextlib.suppress(BaseException), open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
        run(command, out, random.Random(seed))
    os._exit(0)


def check(out: Path) -> None:
    """Every file is one that longhand wrote, or tuned, as a whole."""
    lock = json.loads((out / LOCK).read_text())
    for path, digest in lock["hashes"].items():
        content = (out / path).read_bytes()
        is_tuned = path in lock.get("tuned", {}) or path.startswith("kernels/")
        assert hashlib.sha256(content).hexdigest() == digest or is_tuned, f"{path} is not as it was written"
        if not path.endswith(".pt"):
            assert hashlib.sha256((out / ".base" / path).read_bytes()).hexdigest() == digest, f".base/{path}"
        if path.endswith(".py"):
            compile(content, path, "exec")


def bring_up_to_date(out: Path) -> None:
    """What a person does after a crash: undoes the ejection, generates, loads, compiles."""
    try:
        model, args = pair_models.make(VERSIONS[0])
        with contextlib.suppress(LonghandError):  # none is ejected, or this one is
            eject(out / KERNEL, undo=True)
        assert pair_models.generate(VERSIONS[0], out).is_good
        with torch.no_grad():
            unit = longhand.load(out)()
            unit.load_state_dict(model.state_dict())
            torch.testing.assert_close(unit(*args), model(*args))
        run("compile", out, random.Random(0))
    except BaseException:
        traceback.print_exc()
        raise


def finish(out: Path) -> None:
    """A run that nobody kills: the unit is its model's, and nothing else lies beside it."""
    assert run_watched(lambda: bring_up_to_date(out)) == 0
    left = [path for path in os.listdir(out.parent) if path != out.name]
    left += [str(path) for path in out.rglob(".*.longhand-*")]
    assert not left, f"left behind: {left}"
    check(out)


def kill_pair(out: Path, source: random.Random) -> Counter[str]:
    """Starts two commands and kills them; those that had not ended before."""
    commands = [source.choice(COMMANDS) for _ in range(2)]
    running = [start(command, out, source.randrange(2**30)) for command in commands]
    killed: Counter[str] = Counter()
    for pid, command in zip(running, commands, strict=True):
        longest = source.choice((0.1, 1, LONGEST, TUNING_SECONDS if "tune" in commands else LONGEST))
        time.sleep(source.uniform(0, longest))
        for kill in (os.killpg, os.kill):  # it may be no group yet; compilers are none of it, and go on
            with contextlib.suppress(ProcessLookupError):
                kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        killed[command] += status == -signal.SIGKILL
    return killed


def sweep(
    n_kills: int, seed: int = 0, deadline: float = float("inf"), tell: Callable[[Counter[str]], None] = print
) -> None:
    """Tells what was killed, after each check; kills until there are enough, or the deadline comes."""
    importlib.import_module("longhand.cli.commands")  # with everything that a run imports
    source = random.Random(seed)
    n_killed = 0
    folder = Path(tempfile.mkdtemp(prefix="longhand-kills-"))
    for variable in ("LONGHAND_CACHE_DIR", "XDG_CACHE_HOME", "TMPDIR"):  # nothing is shared with other sweeps
        place = folder / variable.lower()
        place.mkdir()
        os.environ[variable] = str(place)
    tempfile.tempdir = None  # it was asked for before
    out = folder / "kept" / "unit"
    try:
        finish(out)
        while n_killed < n_kills and time.monotonic() < deadline:
            for _ in range(PAIRS):
                counts = kill_pair(out, source)
                check(out)
                tell(counts)
                n_killed += counts.total()
                if time.monotonic() >= deadline:
                    break
            finish(out)
    except BaseException as error:
        raise AssertionError(f"seed {seed}: lost something, see {folder}") from error
    shutil.rmtree(folder)


def sweep_into(results: Any, n_kills: int, seed: int, seconds: float) -> None:
    """One of several sweeps at once: tells its counts as they come, then None, or what was lost."""
    try:
        sweep(n_kills, seed, time.monotonic() + seconds, results.put)
        results.put(None)
    except BaseException:
        results.put(traceback.format_exc())


def gather(results: Any, running: Sequence[Any], n_kills: int) -> tuple[Counter[str], list[str]]:
    """What all sweeps killed, and what they lost. Each ends by itself: all that it waits for is killed, or watched."""
    counts: Counter[str] = Counter()
    lost: list[str] = []
    n_ended, told = 0, time.monotonic()
    while n_ended < len(running):
        # Before the queue is asked: who has ended since may have left its last words there.
        n_alive = sum(process.is_alive() for process in running)
        try:
            found = results.get(timeout=5.0)
        except queue.Empty:
            if n_alive + n_ended < len(running):
                return counts, [*lost, f"{len(running) - n_alive - n_ended} sweeps died without a word"]
            continue
        if isinstance(found, Counter):
            counts += found
        else:
            n_ended += 1
            lost += [found] if found else []
        if time.monotonic() > told + 15:
            told = time.monotonic()
            print(f"{counts.total()} of {n_kills}: {dict(counts)}", flush=True)
    return counts, lost


def main() -> int:
    """Prints the counts of each command; 1 if something was lost, 2 if the budget ended it before."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kills", type=int)
    parser.add_argument("-j", type=int, default=1, help="units at once, with two processes each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds for all")
    options = parser.parse_args()
    began = time.monotonic()
    context = multiprocessing.get_context("spawn")  # each has an environment of its own
    results = context.Queue()
    share = -(-options.kills // options.j)
    seconds = max(options.budget - ENDING, 0.0)
    running = [
        context.Process(target=sweep_into, args=(results, share, options.seed * options.j + number, seconds))
        for number in range(options.j)
    ]
    for process in running:
        process.start()
    counts, lost = gather(results, running, options.kills)
    for process in running:
        process.kill()  # each has said its last word
        process.join()
    print("\n".join(lost))
    for command in dict.fromkeys(COMMANDS):
        print(f"{counts[command]:6}  {command}")
    print(
        f"{counts.total()} of {options.kills} killed in {time.monotonic() - began:.0f} s, {options.j} units at once; "
        + (f"{len(lost)} sweeps lost something" if lost else "nothing was lost")
    )
    return 1 if lost else 2 if counts.total() < options.kills else 0


if __name__ == "__main__":
    sys.exit(main())
