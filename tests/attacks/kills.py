"""``python -m tests.attacks.kills 1000 -j 8``: two processes on one unit and cache, killed at random.

With ``-j``, so many units, each with a cache and two processes of its own; ``--seed`` draws other moments.

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
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import torch

import longhand
from longhand.emit.unit.lock_schema import LOCK
from longhand.errors import LonghandError
from longhand.staleness.eject import eject
from longhand.tune.tuning import tune
from tests.longhand import pair_models

VERSIONS = ("first", "op after")
COMMANDS = ("generate", "generate", "renew", "eject", "tune", "compile")
KERNEL = "kernels/add_and_layer_norm.cpp"
LONGEST = 6.0  # seconds until a kill
TUNING_SECONDS = 20.0
PAIRS = 4  # between runs that nobody kills


def run(command: str, out: Path, source: random.Random) -> None:
    """One command, as the command line runs it."""
    match command:
        case "generate":
            pair_models.generate(source.choice(VERSIONS), out)
        case "renew":
            for version in VERSIONS:
                pair_models.generate(version, out)
        case "eject":
            while True:  # each takes milliseconds: until the kill
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


def finish(out: Path) -> None:
    """A run that nobody kills: the unit is its model's, and nothing else lies beside it."""
    pid = os.fork()
    if pid == 0:
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
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    left = [path for path in os.listdir(out.parent) if path != out.name]
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
        for kill in (os.killpg, os.kill):  # the group with its compilers; it may not be one yet
            with contextlib.suppress(ProcessLookupError):
                kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        killed[command] += status == -signal.SIGKILL
    return killed


def sweep(n_kills: int, seed: int = 0) -> Counter[str]:
    """What was killed how often."""
    importlib.import_module("longhand.cli.commands")  # with everything that a run imports
    source = random.Random(seed)
    counts: Counter[str] = Counter()
    folder = Path(tempfile.mkdtemp(prefix="longhand-kills-"))
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    os.environ["LONGHAND_CACHE_DIR"] = str(folder / "cache" / "longhand")
    out = folder / "kept" / "unit"
    finish(out)
    while counts.total() < n_kills:
        for _ in range(PAIRS):
            counts += kill_pair(out, source)
            check(out)
        finish(out)
        print(f"seed {seed}: {counts.total()} of {n_kills}: {dict(counts)}", flush=True)
    shutil.rmtree(folder)
    return counts


def sweep_into(results: Any, n_kills: int, seed: int) -> None:
    """One of several sweeps at once: tells its counts, or what was lost."""
    try:
        results.put(sweep(n_kills, seed))
    except BaseException:
        results.put(traceback.format_exc())


def main() -> int:
    """Prints the counts of each command; 1 if something was lost."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kills", type=int)
    parser.add_argument("-j", type=int, default=1, help="units at once, with two processes each")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")  # each has an environment of its own
    results = context.Queue()
    share = -(-options.kills // options.j)
    running = [
        context.Process(target=sweep_into, args=(results, share, options.seed * options.j + number))
        for number in range(options.j)
    ]
    for process in running:
        process.start()
    counts: Counter[str] = Counter()
    lost = []
    for _ in running:
        found = results.get()
        lost += [found] if isinstance(found, str) else []
        counts += Counter() if isinstance(found, str) else found
    for process in running:
        process.join()
    print("\n".join(lost))
    print("\n".join(f"{count:6}  {command}" for command, count in counts.most_common()))
    print(
        f"{counts.total()} killed; " + (f"{len(lost)} sweeps lost something" if lost else "nothing was lost")
    )
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
