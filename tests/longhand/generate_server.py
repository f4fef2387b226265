"""Forks a process for each `generate` that a test wants to kill, so that torch is imported once.

``python -m tests.longhand.generate_server``: reads lines ``VERSION<tab>FOLDER``, answers ``started PID`` and, once
that process has ended, ``ended STATUS``.
"""

import importlib
import os
import sys
import traceback

from tests.longhand import pair_models


def generate(version, out):
    """One run, as the command line makes it."""
    os.environ["PAIR_VERSION"] = version
    return pair_models.generate(version, out)


def main():
    """Serves until its input ends."""
    importlib.import_module("longhand.cli.commands")  # with everything that a run imports
    for line in sys.stdin:
        version, out = line.rstrip("\n").split("\t")
        pid = os.fork()
        if pid == 0:
            os.setsid()  # so that the test can end the processes that this one started, too
            status = 1
            try:
                status = 0 if generate(version, out).is_good else 2
            except BaseException:
                traceback.print_exc()
            os._exit(status)
        print(f"started {pid}", flush=True)
        _, status = os.waitpid(pid, 0)
        print(f"ended {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    main()
