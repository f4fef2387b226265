"""blas.c against torch, with a stand-in for cuBLAS that computes from what it is told."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tests.native.stand_in import LIMIT, StandIn, on_gpu, stand_in, write_unit


@pytest.fixture(name="with_stand_in")
def _with_stand_in(tmp_path: Path) -> StandIn:
    return stand_in(tmp_path)


def aligned(*shape: int, dtype: torch.dtype = torch.float32, shift: int = 0) -> torch.Tensor:
    """Whole numbers, so that all sums are exact, in memory that begins `shift` elements after 256 bytes."""
    n = torch.Size(shape).numel()
    memory = torch.zeros(n + 512, dtype=dtype)
    start = (-memory.data_ptr() % 256) // dtype.itemsize + shift
    memory[start : start + n] = torch.randint(-4, 5, (n,)).to(dtype)
    return on_gpu(memory[start : start + n].view(shape))


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """As torch has it."""
    return tensor.as_subclass(torch.Tensor)


DTYPES = (torch.float32, torch.bfloat16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lead", [(5,), (1,), (2, 3), (1, 1), (2, 1, 3)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_linear(with_stand_in: StandIn, dtype: torch.dtype, lead: tuple[int, ...], has_bias: bool) -> None:
    x, weight = aligned(*lead, 16, dtype=dtype), aligned(24, 16, dtype=dtype)
    given = [x, weight, *([aligned(24, dtype=dtype)] if has_bias else [])]
    for _ in range(3):
        made = with_stand_in.functions.linear(*given)
        wanted = F.linear(*map(plain, given))
        assert made.shape == wanted.shape and made.stride() == wanted.stride() and made.dtype == wanted.dtype
        assert torch.equal(plain(made), wanted)
    assert with_stand_in.by_aten == []
    assert (with_stand_in["n_chosen"], with_stand_in["n_multiplied"]) == (1, 3)
    assert (
        with_stand_in["last_limit"] == (1 << 20 if has_bias else LIMIT)
        and with_stand_in["last_stream"] == 1000
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lies", ["nn", "nt", "tn", "tt", "wide"])
def test_mm_and_addmm(with_stand_in: StandIn, dtype: torch.dtype, lies: str) -> None:
    a, b = aligned(8, 16, dtype=dtype), aligned(16, 24, dtype=dtype)
    if lies == "wide":
        a, b = aligned(8, 32, dtype=dtype)[:, :16], aligned(16, 48, dtype=dtype)[:, 16:40]
    elif lies != "nn":
        a = aligned(16, 8, dtype=dtype).t() if lies[0] == "t" else a
        b = aligned(24, 16, dtype=dtype).t() if lies[1] == "t" else b
    bias = aligned(24, dtype=dtype)
    made = with_stand_in.functions.mm(a, b)
    assert torch.equal(plain(made), torch.mm(plain(a), plain(b))) and made.is_contiguous()
    made = with_stand_in.functions.addmm(bias, a, b)
    assert torch.equal(plain(made), torch.addmm(plain(bias), plain(a), plain(b)))
    assert with_stand_in.by_aten == [] and with_stand_in["n_multiplied"] == 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_bmm(with_stand_in: StandIn, dtype: torch.dtype) -> None:
    a, b = aligned(3, 8, 16, dtype=dtype), aligned(3, 24, 16, dtype=dtype).transpose(1, 2)
    heads = aligned(8, 3, 16, dtype=dtype).transpose(0, 1)
    for one in (a, heads, aligned(3, 16, 8, dtype=dtype).mT):
        made = with_stand_in.functions.bmm(one, b)
        assert torch.equal(plain(made), torch.bmm(plain(one), plain(b))) and made.is_contiguous()
    assert with_stand_in.by_aten == [] and with_stand_in["n_chosen"] == 3


def test_what_decides_is_in_the_key(with_stand_in: StandIn) -> None:
    linear = with_stand_in.functions.linear
    x, weight, bias = aligned(4, 16), aligned(24, 16), aligned(24)

    def is_new(*given: torch.Tensor) -> bool:
        before = with_stand_in["n_chosen"]
        linear(*given)
        return with_stand_in["n_chosen"] == before + 1

    assert is_new(x, weight) and not is_new(x, weight) and not is_new(aligned(4, 16), aligned(24, 16))
    assert is_new(x, weight, bias) and not is_new(x, weight, aligned(24))
    assert is_new(aligned(5, 16), weight) and is_new(aligned(2, 2, 16), weight)
    assert is_new(aligned(4, 16, shift=4), weight)  # 16 bytes
    assert list(_alignments(with_stand_in)) == [256, 16, 256, 256]
    assert is_new(x, weight, aligned(24, shift=8)) and _alignments(with_stand_in)[3] == 32
    assert is_new(x, aligned(16, 24).t()) and is_new(aligned(4, 32)[:, :16], weight)
    assert is_new(aligned(4, 16, dtype=torch.bfloat16), aligned(24, 16, dtype=torch.bfloat16))
    assert with_stand_in["last_compute_type"] == 68
    with_stand_in.answers["precision"] = "tf32"
    assert is_new(x, weight) and with_stand_in["last_compute_type"] == 77
    with_stand_in.answers["precision"] = "ieee"
    assert not is_new(x, weight)
    with_stand_in["pretended_device"] = with_stand_in.answers["device"] = 1
    assert is_new(x, weight) and with_stand_in["last_stream"] == 1001 and with_stand_in["n_handles"] == 2
    assert with_stand_in.by_aten == []


def _alignments(with_stand_in: StandIn) -> list[int]:
    return list((ctypes.c_int64 * 4).in_dll(with_stand_in.library, "last_alignments"))


def test_a_bias_elsewhere_is_told(with_stand_in: StandIn) -> None:
    x, weight = aligned(4, 16), aligned(24, 16)
    for bias in (aligned(24), aligned(24), aligned(24)):
        assert torch.equal(
            plain(with_stand_in.functions.linear(x, weight, bias)), F.linear(*map(plain, (x, weight, bias)))
        )
    assert with_stand_in["n_chosen"] == 1


def test_a_workspace_is_allocated_for_a_call(with_stand_in: StandIn) -> None:
    with_stand_in["workspace_wanted"] = 4096
    x, weight = aligned(4, 16), aligned(24, 16)
    for _ in range(2):
        assert torch.equal(
            plain(with_stand_in.functions.linear(x, weight)), F.linear(plain(x), plain(weight))
        )
    assert with_stand_in["last_workspace_bytes"] == 4096 and with_stand_in["last_workspace"] != 0


UNUSUAL = {
    "misaligned": lambda: (aligned(4, 16, shift=1), aligned(24, 16)),
    "steps in both": lambda: (aligned(4, 32)[:, ::2], aligned(24, 16)),
    "rows apart in batches": lambda: (aligned(2, 3, 32)[:, :, :16], aligned(24, 16)),
    "overlapping": lambda: (aligned(4, 16), aligned(16).expand(24, 16)),
    "float64": lambda: (aligned(4, 16, dtype=torch.float64), aligned(24, 16, dtype=torch.float64)),
    "no rows": lambda: (aligned(0, 16), aligned(24, 16)),
    "nothing to sum": lambda: (aligned(4, 0), aligned(24, 0)),
    "one column": lambda: (aligned(4, 16), aligned(1, 16)),
    "one to sum": lambda: (aligned(4, 1), aligned(24, 1)),
    "a vector": lambda: (aligned(16), aligned(24, 16)),
    "many dimensions": lambda: (aligned(1, 2, 1, 2, 16), aligned(24, 16)),
    "a bias in rows": lambda: (aligned(4, 16), aligned(24, 16), aligned(1, 24)),
    "a bias by steps": lambda: (aligned(4, 16), aligned(24, 16), aligned(48)[::2]),
    "no tensor of torch's own": lambda: (torch.ones(4, 16), aligned(24, 16)),
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_what_is_unusual_is_atens(with_stand_in: StandIn, what: str) -> None:
    given = UNUSUAL[what]()
    for _ in range(2):
        made = with_stand_in.functions.linear(*given)
        assert torch.equal(plain(made), F.linear(*map(plain, given)))
    assert with_stand_in.by_aten == ["linear"] * 2 and with_stand_in["n_chosen"] == 0


@pytest.mark.parametrize(
    ("setting", "value", "dtype"),
    [
        ("modes", 1, torch.float32),
        ("deterministic", True, torch.float32),
        ("carveout", 8, torch.float32),
        ("precision", "bf16x9", torch.float32),
        ("bfloat16", (False, True), torch.bfloat16),
        ("bfloat16", False, torch.bfloat16),
        ("float16", (True, False), torch.float16),
        ("device", 1, torch.float32),
    ],
)
def test_settings_that_are_unusual_are_atens(
    with_stand_in: StandIn, setting: str, value: object, dtype: torch.dtype
) -> None:
    given = aligned(4, 16, dtype=dtype), aligned(24, 16, dtype=dtype)
    with_stand_in.functions.linear(*given)
    assert with_stand_in.by_aten == []
    usual, with_stand_in.answers[setting] = with_stand_in.answers[setting], value
    with_stand_in.functions.linear(*given)
    assert with_stand_in.by_aten == ["linear"]
    with_stand_in.answers[setting] = usual
    with_stand_in.functions.linear(*given)
    assert with_stand_in.by_aten == ["linear"]


@pytest.mark.parametrize(("fails_in", "n_by_aten"), [(1, 2), (2, 2), (3, 2), (4, 2), (5, 1)])
def test_what_cublas_refuses_is_atens(with_stand_in: StandIn, fails_in: int, n_by_aten: int) -> None:
    x, weight = aligned(4, 16), aligned(24, 16)
    with_stand_in["fails_in"] = fails_in
    for _ in range(2):
        assert torch.equal(
            plain(with_stand_in.functions.linear(x, weight)), F.linear(plain(x), plain(weight))
        )
        with_stand_in["fails_in"] = 0  # a kind that was refused stays ATen's
    assert len(with_stand_in.by_aten) == n_by_aten


def test_into_a_graph_atens_is_recorded(with_stand_in: StandIn) -> None:
    x, weight = aligned(4, 16), aligned(24, 16)
    with_stand_in["is_capturing"] = 1
    with_stand_in.functions.linear(x, weight)
    with_stand_in["is_capturing"] = 0
    with_stand_in.functions.linear(x, weight)
    assert with_stand_in.by_aten == ["linear"] and with_stand_in["n_multiplied"] == 1


def test_the_first_product_of_each_thread_is_atens(with_stand_in: StandIn) -> None:
    """Who records it into a graph finds ATen ready: it cannot make its handle of cuBLAS then."""
    x, weight = aligned(4, 16), aligned(24, 16)

    def works() -> None:
        for _ in range(3):
            with_stand_in.functions.linear(x, weight)

    for n_threads in (1, 2):
        thread = threading.Thread(target=works)
        thread.start()
        thread.join()
        assert with_stand_in.by_aten == ["linear"] * n_threads
    assert with_stand_in["n_multiplied"] == 4
    works()
    assert with_stand_in["n_multiplied"] == 7, "this thread's was before"


def test_what_autograd_watches_is_atens(with_stand_in: StandIn) -> None:
    x, weight = aligned(4, 16).requires_grad_(), aligned(24, 16)
    with_stand_in.answers["grad"] = True
    assert with_stand_in.functions.linear(x, weight).requires_grad
    assert with_stand_in.by_aten == ["linear"]
    with_stand_in.functions.linear(x.detach(), weight)
    assert with_stand_in.by_aten == ["linear"]


def test_errors_are_torchs(with_stand_in: StandIn) -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        with_stand_in.functions.mm(aligned(4, 16), aligned(24, 16))
    with pytest.raises(RuntimeError, match="same dtype"):
        with_stand_in.functions.mm(aligned(4, 16), aligned(16, 24, dtype=torch.bfloat16))
    with pytest.raises(TypeError):
        with_stand_in.functions.mm(aligned(4, 16))
    with pytest.raises(TypeError):
        with_stand_in.functions.linear(aligned(4, 16), 3)


def test_threads_with_biases_of_their_own(with_stand_in: StandIn) -> None:
    """While a call runs, without Python's lock, its operation holds its bias: others of the kind are ATen's."""
    wrong: list[object] = []
    with_stand_in["microseconds"] = 300

    def work(seed: int) -> None:
        for step in range(100):
            x, weight, bias = aligned(2 + step // 50, 16), aligned(24, 16), aligned(24)
            made = with_stand_in.functions.linear(x, weight, bias)
            if not torch.equal(plain(made), F.linear(plain(x), plain(weight), plain(bias))):
                wrong.append((seed, step))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and with_stand_in.by_aten and with_stand_in["n_multiplied"] > 20


def test_plans_are_bounded(with_stand_in: StandIn) -> None:
    weight = aligned(2, 2)
    memory = aligned(5000, 2)
    for n in range(1, 4200):
        with_stand_in.functions.linear(memory[:n].view(n, 2), weight)
    assert with_stand_in["n_chosen"] == 4096 and len(with_stand_in.by_aten) == 4199 - 4096


def test_without_a_gpu_products_are_atens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runtime = write_unit(tmp_path)
    x, weight, bias = torch.randn(4, 16), torch.randn(24, 16), torch.randn(24)
    with caplog.at_level("INFO", "longhand.kernels"):
        for _ in range(2):
            assert torch.equal(runtime.blas.linear(x, weight, bias), F.linear(x, weight, bias))
    assert torch.equal(runtime.blas.mm(x, weight.t()), torch.mm(x, weight.t()))
    assert torch.equal(runtime.blas.addmm(bias, x, weight.t()), torch.addmm(bias, x, weight.t()))
    assert [record.getMessage() for record in caplog.records] == [
        "matrix products are ATen's: there is no NVIDIA GPU"
    ]
