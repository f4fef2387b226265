"""``python -m tests.attacks.odd``: 500 odd names, 500 odd source lines and 1,000 odd locks, and what came of them.

``--names 500 --lines 500 --locks 1000`` are the numbers, ``--seed`` draws others than the tests take, ``--budget 480``
ends after eight minutes. Names and lines are of units that are generated, loaded and run, 25 or 50 in a unit; what goes
wrong is looked for by halves, so that single ones are told. A lock is given to each command that looks at a unit
without trusting it, and to the next write. Each share runs in a process of its own, in a folder of its own.

Counted are executions (a file that only code among the names, lines or locks can have made), crashes (a process that
died), hangs (ten seconds of the processor or a minute on the clock for one command, four minutes for a unit), answers
that a bug gives (exit code 3 with those words: of `check` alone it also means "by other versions"), and what is wrong
otherwise. Ends with 1 if there was any, with 2 if the budget ended it before.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

import longhand.cli.commands  # here, and not while a clock runs
from longhand import cli
from longhand.emit.unit.lock_file import LOCK
from longhand.emit.unit.writer import read_ledger, write_unit
from longhand.errors import LonghandError, ProofError
from tests.attacks import test_locks, test_names, test_quoted_source
from tests.attacks.odd_locks import odd_locks
from tests.attacks.odd_names import odd_names
from tests.attacks.odd_sources import odd_lines
from tests.emit.merge_units import version

UNIT_SECONDS, COMMAND_SECONDS, LOCK_SECONDS = 240.0, 10.0, 60.0
BAD = ("executed", "crashed", "hangs", "exit code 3", "wrong")
COMMANDS = (["check"], ["diff"], ["diff", "--markdown"], ["diff", "--stat"], ["view"])
Told = tuple[str, str]  # a kind of outcome, and words on it


def names_in_a_unit(names: Sequence[str], folder: Path, seed: int) -> Told:
    """A module that holds tensors of these names, each share in another way."""
    kind = test_names.KINDS[seed % len(test_names.KINDS)]
    model = test_names.randomized(test_names.Held(names, kind))
    test_names.check(model, (torch.randn(2, 4),), folder / "unit")
    return "right", ""


def lines_in_a_unit(lines: Sequence[str], folder: Path, seed: int) -> Told:
    """A function of these lines."""
    body = "".join("    " + line.replace("\n", "\n    ") + "\n" for line in lines)
    source = f"{test_quoted_source.HEAD}def function(x):\n{body}    return x\n"
    function = test_quoted_source.defined(source, folder, f"odd_lines_{seed}").function
    with torch.no_grad():
        longhand.generate(function, (torch.randn(3),), out=folder / "unit", device="cpu")
        x = torch.randn(3)
        torch.testing.assert_close(longhand.load(folder / "unit")(x), function(x))
    for path, text in test_quoted_source.texts(folder / "unit").items():
        assert "sk-secret" not in text, f"a string is quoted in {path.name}"
        is_plain = all(line.isprintable() for line in text.replace("\t", " ").split("\n"))
        assert is_plain, f"what is not printable stands in {path.name}"
    return "right", ""


def lock_of_a_unit(locks: Sequence[bytes], folder: Path, seed: int) -> Told:
    """One lock, before every command; the exit codes in words."""
    (lock,) = locks
    unit = folder / "unit"
    write_unit(version(gelu=3, norm=4), unit)
    (unit / LOCK).write_bytes(lock)
    codes = []
    for words in COMMANDS:
        begun = time.process_time()
        codes.append(cli.run([*words, str(unit)]))
        seconds = time.process_time() - begun
        if seconds > COMMAND_SECONDS:
            return "hangs", f"{' '.join(words)} took {seconds:.0f} s"
        sys.stderr.flush()
        said = (folder / "said").read_text(errors="replace")
        if "bug in longhand" in said or "Traceback" in said:
            return "exit code 3", f"{' '.join(words)}: {said}"
    with contextlib.suppress(LonghandError):
        read_ledger(unit)
        write_unit(version(gelu=5 + seed % 9, norm=4), unit)
    return "right", f"exit codes {min(codes)} to {max(codes)}"


Attack = Callable[[Sequence[Any], Path, int], Told]


def run(attack: Attack, items: Sequence[Any], seed: int, seconds: float) -> Told:
    """One share, in a process and a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="longhand-odd-"))
    try:
        pid = os.fork()
        if pid == 0:
            _in_child(attack, items, folder, seed)
        until = time.monotonic() + seconds
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > until:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return "hangs", f"no answer within {seconds:.0f} s"
            time.sleep(0.01)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if any(folder.rglob("EXECUTED*")):
            return "executed", ""
        if code or not (folder / "told").exists():
            return "crashed", f"exit code {code}"
        kind, words = json.loads((folder / "told").read_text())
        return kind, words
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _in_child(attack: Attack, items: Sequence[Any], folder: Path, seed: int) -> None:
    os.setsid()
    os.chdir(folder)
    torch.set_num_threads(1)  # OpenMP's threads are not there after a fork
    with open(os.devnull, "w") as nothing, open(folder / "said", "w") as said:
        os.dup2(nothing.fileno(), 1)
        os.dup2(said.fileno(), 2)
    try:
        told = attack(items, folder, seed)
    except ProofError as error:
        told = "exit code 3", str(error)
    except LonghandError as error:
        told = "refused", str(error)
    except AssertionError as error:
        told = "wrong", str(error)
    except BaseException as error:
        told = "exit code 3", f"{type(error).__name__}: {error}"
    (folder / "told").write_text(json.dumps(told))
    os._exit(0)


def outcomes(
    attack: Attack, items: Sequence[Any], seed: int, seconds: float
) -> Iterator[tuple[str, str, Any]]:
    """(kind, words, item) for each item: of a share that is not right the halves are tried."""
    kind, words = run(attack, items, seed, seconds)
    if kind == "right" or len(items) == 1:
        yield from ((kind, words, item) for item in items)
        return
    middle = len(items) // 2
    halves = [
        *outcomes(attack, items[:middle], seed, seconds),
        *outcomes(attack, items[middle:], seed, seconds),
    ]
    if all(one == "right" for one, _, _ in halves):
        halves[0] = kind, f"{words} (only together with {len(items) - 1} others)", items[0]
    yield from halves


def _warm_up(folder: Path) -> None:
    """Runs each command on a unit that nobody spoiled: what they import is imported before the first clock runs."""
    write_unit(version(gelu=3, norm=4), folder / "unit")
    (folder / "unit" / LOCK).write_text(json.dumps(test_locks.REAL))
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        for words in COMMANDS:
            cli.run([*words, str(folder / "unit")])


def shares(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """The items, so many at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def main(words: list[str] | None = None) -> int:
    """Prints the counts; what was bad, one by one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--names", type=int, default=500)
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--locks", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds for all")
    options = parser.parse_args(words)
    deadline = time.monotonic() + options.budget
    seed = options.seed
    locks = list(odd_locks(options.locks, test_locks.REAL, seed)) if options.locks else []
    attacks: list[tuple[str, Attack, Sequence[Any], int, float]] = [
        ("locks", lock_of_a_unit, locks, 1, LOCK_SECONDS),
        ("names", names_in_a_unit, odd_names(options.names, seed), 25, UNIT_SECONDS),
        ("lines", lines_in_a_unit, list(odd_lines(options.lines, seed)), 50, UNIT_SECONDS),
    ]
    bad = n_left = 0
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        os.environ.pop("LONGHAND_TRUST", None)
        _warm_up(Path(cache))
        for name, attack, items, size, seconds in attacks:
            counts: Counter[str] = Counter()
            for number, share in enumerate(shares(items, size)):
                if time.monotonic() > deadline:
                    n_left += len(share)
                    continue
                for kind, said, item in outcomes(attack, share, seed + number, seconds):
                    counts[kind] += 1
                    if kind != "right":
                        print(f"{kind}: {item!r:.300}: {' '.join(said.split())[:600]}", flush=True)
            bad += sum(counts[kind] for kind in BAD)
            n_others = {kind: counts[kind] for kind in ("refused", *BAD)}
            told = ", ".join(f"{count} {kind}" for kind, count in n_others.items())
            print(f"{counts.total()} {name}: {counts['right']} right, {told}", flush=True)
    if n_left:
        print(f"the budget was over: {n_left} are left")
    return 1 if bad else 2 if n_left else 0


if __name__ == "__main__":
    sys.exit(main())
