"""Runs many random programs in one process and counts those that capture got wrong.

python -m tests.capture.bytecode.fuzzing --first 20000 --count 5000
"""

import argparse
import faulthandler
import gc
import time
from pathlib import Path

import torch

from longhand.capture.bytecode.entry import entries
from tests.capture.bytecode import test_programs

_LONGEST = 300  # seconds that one program may take before the process ends with its stack


def problem(seed):
    """What capture does otherwise than eager in one program; empty if nothing."""
    try:
        captured = test_programs.compare(seed)
    except AssertionError as error:
        return str(error)
    except Exception as error:  # capture itself raised: as wrong as another result
        return f"{type(error).__name__}: {error}"
    failed = [event.text for event in captured.events if "capture itself failed" in event.text]
    return "\n".join(failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--first", type=int, required=True, help="the first seed; from 10000 on programs are wide"
    )
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--log", type=Path, help="a file that holds the count so far")
    given = parser.parse_args()
    torch.set_num_threads(1)
    start, wrong, done = time.monotonic(), [], 0
    for seed in range(given.first, given.first + given.count):
        faulthandler.dump_traceback_later(_LONGEST, exit=True)
        found = problem(seed)
        faulthandler.cancel_dump_traceback_later()
        done += 1
        if found:
            wrong.append(seed)
            print(f"seed {seed}: {found.splitlines()[0][:300]}", flush=True)
        entries.forget_all()
        if done % 50 == 0:
            gc.collect()
        seconds = time.monotonic() - start
        if given.log is not None:
            given.log.write_text(
                f"{done} programs from {given.first}, {len(wrong)} wrong {wrong}, {seconds:.0f} s\n"
            )
        if seconds > given.seconds:
            break
    print(f"{done} programs, {len(wrong)} wrong: {wrong}; {time.monotonic() - start:.0f} s")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
