"""What the table of architectures calls right: gradients that are zero, and models that have no float64."""

import pytest
import torch
from torch import nn

from benchmarks.architectures.accuracy import Reference, accuracy, reference
from benchmarks.architectures.calls import copied, step
from benchmarks.architectures.compiled import compiled_result, luck_of_eager
from benchmarks.architectures.rows import Verdict
from longhand.options import Frontend

ZERO, ONE = torch.zeros(4), torch.ones(4)


def test_a_gradient_that_is_zero_is_measured_by_the_others():
    known = Reference([ONE, ZERO], [ONE.double(), ZERO.double()], [1e-7, 0.0])
    assert accuracy([ONE, ZERO + 1e-9], known).error < 1e-8
    assert accuracy([ONE, ZERO + 0.1], known).error > 0.05


def test_a_small_gradient_is_measured_by_itself():
    known = Reference([ONE, 1e-6 * ONE], [ONE.double(), 1e-6 * ONE.double()], [1e-7, 1e-13])
    assert accuracy([ONE, 2e-6 * ONE], known).error > 0.5


class OnlyFloat32(nn.Module):
    """Has no float64, as a library's own kernels have none, and is ill conditioned: 1 less what is nearly 1."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((4,), 1.0 - 1e-4))

    def forward(self, x):
        if x.dtype is torch.float64:
            raise RuntimeError("expected scalar type Float")
        return 1 - self.weight * x


def test_without_float64_eager_is_as_exact_as_its_last_bits():
    def run(example):
        one = copied(example)
        return step(one[0], *one, train=False)

    known = reference((OnlyFloat32(), (ONE,), {}), run)
    found = accuracy(known.eager, known)
    assert found.error == 0 and 1e-4 < found.eager_error < 1e-2


class Cancels(nn.Module):
    """Eager hits the difference of large numbers exactly; a bit in either is a thousand times what float64 shows."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((4,), 1000.0))

    def forward(self, x):
        return (x + 1001.0) - self.weight


def test_where_eager_is_right_by_chance_its_last_bits_are_its_error():
    def run(example):
        one = copied(example)
        return step(one[0], *one, train=False)

    example = (Cancels(), (ZERO,), {})
    off = [ONE + 1e-4]
    assert accuracy(off, reference(example, run)).eager_error < 1e-8
    found = accuracy(off, reference(example, run, in_last_bits=True))
    assert 1e-5 < found.eager_error < 1e-3 and found.error < 1e-3


class Asks(nn.Module):
    """Computes something else where it is compiled, or raises, as some models of transformers do with their masks."""

    def __init__(self, raises):
        super().__init__()
        self.raises = raises

    def forward(self, x):
        if not torch.compiler.is_compiling():
            return x @ x
        if self.raises:
            raise ValueError("no such mask")
        return x @ x.t()


def test_a_model_that_asks_is_held_against_what_it_computes_when_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    example = (Asks(raises=False), (torch.randn(8, 8),), {})
    result = compiled_result(example, torch.float32, Frontend.BYTECODE, train=False)
    assert result.verdict is Verdict.RIGHT and result.numbers["asks"] == "is_compiling", result


def test_a_model_that_raises_where_it_is_told_is_held_against_eager(tmp_path, monkeypatch):
    """It is told what eager tells it then: no row is left out for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    x = torch.randn(8, 8)
    result = compiled_result((Asks(raises=True), (x,), {}), torch.float32, Frontend.BYTECODE, train=False)
    assert result.verdict is Verdict.RIGHT and result.numbers["graphs"] == 1, result


class TwoResults(nn.Module):
    """Only the first result is used where `forward` is not all that is compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x) + 0


def test_no_gradient_counts_as_zeros_and_a_missing_one_is_wrong() -> None:
    torch.manual_seed(0)
    model, x = TwoResults(), torch.randn(3, 4)
    found = step(model, model, (x,), {}, train=True)
    assert [tensor.count_nonzero().item() > 0 for tensor in found] == [True, True, True, False, False]
    detached = step(
        lambda x: nn.functional.linear(x, model.used.weight.detach(), model.used.bias),
        model,
        (x,),
        {},
        train=True,
    )
    assert len(detached) == len(found)
    assert not detached[1].any() and found[1].any()


class Lengths(nn.Module):
    """As many elements as a sum that is rounded has, or one more."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten()[: 5 + int((x * 1.1).sum() > self.threshold)]


@pytest.mark.parametrize("is_near", [True, False])
def test_sizes_that_hang_on_last_bits_are_luck(is_near: bool) -> None:
    x = torch.rand(4, 8)
    total = float((x * 1.1).sum())
    module = Lengths(total if is_near else total - 1.0)
    luck = luck_of_eager((module, (x,), {}), lambda one: [one[0](*one[1])])
    assert ("other sizes" in luck) is is_near


class ColumnsOfPixels(nn.Module):
    """A norm of images one pixel wide, whose gradient PyTorch gets wrong: it comes channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.norm = nn.Parameter(torch.rand(8, 1, 1)), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(x * self.scale).transpose(1, 3))


def test_where_torch_is_wrong_for_a_layout_a_step_is_held_against_what_is_right(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    torch.manual_seed(0)
    example = (ColumnsOfPixels().train(), (torch.randn(3, 8, 12, 1),), {})
    result = compiled_result(example, torch.float32, Frontend.BYTECODE, train=True)
    assert result.verdict is Verdict.RIGHT, result
    assert result.numbers["wrong in torch"] == "native_batch_norm_backward"
