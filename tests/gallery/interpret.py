"""Runs a CUDA unit of the gallery on CPU tensors in Triton's interpreter, at odd sizes, against eager in float64.

Started by test_cuda_kernels.py with TRITON_INTERPRET=1, which must be set before the kernels are imported:
``python interpret.py UNIT WORKSHOP``. Prints the kernels that ran.
"""

from __future__ import annotations

import sys
from pathlib import Path

import odd_runs

from longhand.verify.attention_on_cpu import register
from longhand.verify.interpretation import mend_interpreter


def main() -> None:
    mend_interpreter()
    register()
    print(" ".join(sorted(odd_runs.run(sys.argv[1], Path(sys.argv[2]), "cpu"))))


main()
