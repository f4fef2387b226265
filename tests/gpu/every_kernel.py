"""``compute-sanitizer --tool memcheck python -m tests.gpu.every_kernel [UNIT ...]``: every CUDA kernel of the gallery.

Each runs once at two odd sizes, no multiples of blocks, and what it computes is compared with eager. Every tensor is
memory of its own from the driver, so that memcheck sees an access one element past its end: PyTorch's cache would hand
out pieces of large blocks. How often each kernel was launched is printed. Ends with 1 if a kernel of the gallery was
wrong or did not run.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"  # read when torch first asks for memory
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gallery"))

import odd_runs
import triton

from examples.gallery import ROOT, entries


def main(words: list[str]) -> int:
    """Runs the units whose path contains one of the words; all without words."""
    failed = []
    launches: Counter[str] = Counter()

    def count(metadata: Any) -> None:
        launches[metadata.get()["name"]] += 1

    triton.knobs.runtime.launch_enter_hook.add(count)
    for entry in entries():
        if entry.device != "cuda" or (words and not any(word in entry.path for word in words)):
            continue
        try:
            with tempfile.TemporaryDirectory() as workshop:
                ran = odd_runs.run(entry.path, Path(workshop), "cuda")
        except Exception:
            traceback.print_exc()
            ran = set()
        files = {path.stem for path in (ROOT / entry.path / "kernels").glob("*.py")} - {"__init__"}
        print(f"{entry.path}: {len(ran)} of {len(files)} kernels", flush=True)
        if ran != files:
            failed.append(entry.path)
    for name, number in sorted(launches.items()):
        print(f"launched {name}: {number}")
    print(f"wrong or not run: {', '.join(failed)}" if failed else "all kernels ran and were right")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
