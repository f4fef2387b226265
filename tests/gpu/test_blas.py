"""blas.c on a GPU: as ATen's products: dtypes, odd sizes, biases, steps, precisions, streams, threads, graphs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F

from longhand.emit.unit.templates import write_runtime_files

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
SIZES = [(1, 768, 2304), (1, 2, 2), (2, 3, 5), (7, 13, 17), (64, 768, 3072), (100, 333, 777), (8, 4096, 1024)]


class Blas(NamedTuple):
    """The functions of blas.c, and the names of ATen's that they called."""

    linear: Callable[..., torch.Tensor]
    mm: Callable[..., torch.Tensor]
    bmm: Callable[..., torch.Tensor]
    addmm: Callable[..., torch.Tensor]
    by_aten: list[str]


@pytest.fixture(scope="module", name="counted")
def _counted(tmp_path_factory: pytest.TempPathFactory) -> Blas:
    folder = tmp_path_factory.mktemp("blas")
    for name, text in write_runtime_files(["blas"]).items():
        (folder / name).write_text(text)
    # Another text is another shared object, whose functions are not also those of a unit's.
    (folder / "blas.c").write_text((folder / "blas.c").read_text() + "// counted\n")
    spec = importlib.util.spec_from_file_location("runtime_of_blas", folder / "runtime.py")
    assert spec is not None and spec.loader is not None
    runtime = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runtime)
    by_aten: list[str] = []

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: by_aten.append(function.__name__) or function(*args)

    aten = tuple(map(counting, (F.linear, torch.mm, torch.bmm, torch.addmm)))
    known = runtime.known_of_torch(aten)
    made = Blas(*runtime.native_functions(runtime.BLAS_FILES, "longhand_blas", known), by_aten)
    matrix = torch.ones(16, 16, device="cuda")
    made.mm(matrix, matrix)  # this thread's first product is ATen's
    return made


@pytest.fixture(name="blas")
def _blas(counted: Blas) -> Iterator[Blas]:
    counted.by_aten.clear()
    with torch.no_grad():
        yield counted


def hold(ours: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> None:
    """Laid out as eager's, and no farther from the exact product than twice as far as eager's, or one rounding."""
    assert (ours.shape, ours.stride(), ours.dtype) == (eager.shape, eager.stride(), eager.dtype)
    scale = exact.abs().max()
    errors = [(one.double() - exact).abs().max() / scale for one in (ours, eager)]
    assert errors[0] <= 2 * errors[1] + 4 * torch.finfo(ours.dtype).eps


def random(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("sizes", SIZES)
def test_products(blas: Blas, dtype: torch.dtype, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    x, weight, bias, d_out = (random(*shape, dtype=dtype) for shape in ((m, k), (n, k), (n,), (m, n)))
    wide = random(m, 2 * k, dtype=dtype)[:, :k]
    left, right = random(3, m, k, dtype=dtype), random(3, n, k, dtype=dtype)
    calls: list[tuple[Any, Any, tuple[torch.Tensor, ...]]] = [
        (blas.linear, F.linear, (x, weight)),
        (blas.linear, F.linear, (x, weight, bias)),
        (blas.linear, F.linear, (x.view(1, m, k), weight, bias)),
        (blas.linear, F.linear, (x.view(m, 1, 1, k), weight)),
        (blas.linear, F.linear, (wide, weight, bias)),
        (blas.mm, torch.mm, (d_out, weight)),
        (blas.mm, torch.mm, (d_out.T, x)),
        (blas.mm, torch.mm, (x.T.contiguous().T, weight.T)),
        (blas.addmm, torch.addmm, (bias, x, weight.t().contiguous())),
        (blas.bmm, torch.bmm, (left, right.mT)),
        (blas.bmm, torch.bmm, (left.transpose(0, 1).contiguous().transpose(0, 1), right.mT)),
    ]
    for _ in range(2):
        for ours, eager, given in calls:
            hold(ours(*given), eager(*given), eager(*(one.double() for one in given)))
    assert len(blas.by_aten) <= 2 * 2  # sums of one product


def test_tf32_is_as_torch_is_told(blas: Blas) -> None:
    x, weight = random(256, 1024, dtype=torch.float32), random(512, 1024, dtype=torch.float32)
    before = torch.get_float32_matmul_precision()
    errors = {}
    try:
        for precision in ("highest", "high", "highest"):
            torch.set_float32_matmul_precision(precision)
            made = blas.linear(x, weight)
            torch.testing.assert_close(made, F.linear(x, weight), rtol=1e-5, atol=1e-4)
            errors[precision] = (made.double() - F.linear(x.double(), weight.double())).abs().max().item()
    finally:
        torch.set_float32_matmul_precision(before)
    assert errors["high"] > 20 * errors["highest"] and blas.by_aten == []


def test_settings_and_what_is_unusual(blas: Blas) -> None:
    x, weight = random(64, 768, dtype=torch.bfloat16), random(768, 768, dtype=torch.bfloat16)
    blas.linear(x, weight)
    assert blas.by_aten == []
    matmul = torch.backends.cuda.matmul
    matmul.allow_bf16_reduced_precision_reduction = False
    try:
        blas.linear(x, weight)
    finally:
        matmul.allow_bf16_reduced_precision_reduction = True
    unaligned = random(64 * 768 + 1, dtype=torch.bfloat16)[1:].view(64, 768)
    for given in (
        (unaligned, weight),
        (x[:0], weight),
        (x.double(), weight.double()),
        (x.cpu(), weight.cpu()),
    ):
        assert torch.equal(blas.linear(*given), F.linear(*given))
    assert blas.by_aten == ["linear"] * 5
    with torch.enable_grad():
        assert blas.linear(x.clone().requires_grad_(), weight).requires_grad
    with torch.inference_mode():
        assert blas.linear(x, weight).is_inference()


def test_streams_and_threads(blas: Blas) -> None:
    weight = random(768, 768, dtype=torch.bfloat16)
    wrong: list[int] = []

    def work(seed: int) -> None:
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            x, bias = random(64, 768, dtype=torch.bfloat16), random(768, dtype=torch.bfloat16)
            wanted = F.linear(x, weight, bias)
            for _ in range(200):
                if not torch.allclose(blas.linear(x, weight, bias), wanted, rtol=2e-2, atol=0.5):
                    wrong.append(seed)

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_into_a_graph_atens_is_recorded(blas: Blas) -> None:
    x, weight = random(64, 768, dtype=torch.bfloat16), random(768, 768, dtype=torch.bfloat16)
    blas.linear(x, weight)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = blas.linear(x, weight)
    assert blas.by_aten == ["linear"]
    x.normal_()
    graph.replay()
    assert torch.equal(made, F.linear(x, weight))


def test_a_first_use_in_a_new_thread(tmp_path: Path) -> None:
    """In a process whose main thread did nothing on the GPU yet."""
    for name, text in write_runtime_files(["blas"]).items():
        (tmp_path / name).write_text(text)
    lines = (
        "import threading, torch, runtime",
        "def work():",
        "    x, w = (torch.ones(64, 64, device='cuda', dtype=torch.bfloat16) for _ in range(2))",
        "    assert torch.equal(runtime.blas.linear(x, w), torch.nn.functional.linear(x, w)); print('right')",
        "for _ in range(2):",
        "    thread = threading.Thread(target=work); thread.start(); thread.join()",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["right"] * 2
