"""``python -m tests.gpu.faulty_kernels KERNEL``: kernels that are wrong on purpose, for what must find them.

compute-sanitizer that says nothing of these would say nothing of the gallery's either.
"""

from __future__ import annotations

import os
import sys

os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"  # one past the end is then past what the driver gave

import torch
import triton
import triton.language as tl

N = 100


@triton.jit
def outside_kernel(x_ptr, n, BLOCK: tl.constexpr):
    """Writes past the end of x: the mask is one element too long."""
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, i.to(tl.float32), mask=i <= n)


@triton.jit
def racing_kernel(x_ptr, n, BLOCK: tl.constexpr):
    """Every thread of four warps writes a number of its own to one word of shared memory, and reads it back."""
    i = tl.arange(0, BLOCK)
    read = tl.inline_asm_elementwise(
        "{ .shared .align 4 .b32 word; st.volatile.shared.b32 [word], $1; ld.volatile.shared.b32 $0, [word]; }",
        "=r,r",
        [i],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    tl.store(x_ptr + i, read.to(tl.float32), mask=i < n)


@triton.jit
def right_kernel(x_ptr, n, BLOCK: tl.constexpr):
    """Nothing is wrong here: a sum in shared memory, stored within its bounds."""
    i = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0))
    tl.store(x_ptr + i, total, mask=i < n)


def main(words: list[str]) -> int:
    """Launches one of them, once."""
    x = torch.zeros(N, device="cuda")
    kernel = {"outside": outside_kernel, "racing": racing_kernel, "right": right_kernel}[words[0]]
    kernel[(1,)](x, N, BLOCK=128, num_warps=4)
    torch.cuda.synchronize()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
