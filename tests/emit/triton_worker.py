"""Runs kernels of a unit on CPU tensors; started by triton_units.py with TRITON_INTERPRET=1."""

import importlib
import sys
import time
import traceback
from pathlib import Path

import torch

from longhand.verify.interpretation import mend_interpreter


def main(folder: Path) -> None:
    mend_interpreter()
    sys.path.insert(0, str(folder.parent))
    results = []
    for job in torch.load(folder / "jobs.pt"):
        start = time.perf_counter()
        try:
            module = importlib.import_module(f"{folder.name}.kernels.{job['kernel']}")
            getattr(module, job["kernel"])(*job["tensors"], *job["numbers"])
            results.append(job["tensors"])
        except Exception:
            results.append(traceback.format_exc())
        seconds = time.perf_counter() - start
        if seconds > 2:
            print(f"{job['kernel']}: {seconds:.1f} s", file=sys.stderr)
    torch.save(results, folder / "results.pt")


main(Path(sys.argv[1]))
