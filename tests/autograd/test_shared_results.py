"""generate --train of calls whose results are views of arguments or of one another: memory, gradients and flags are
eager's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from torch import nn

import longhand
from longhand.cli import run
from longhand.errors import CaptureError

Args = tuple[Any, ...]


def grad(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).requires_grad_()


def only_views(x):
    first, second = x.chunk(2, -1)
    return first, second.t(), x, 3


def detached(x):
    return x.detach()[0], x[1], x.detach().t()


def of_whole_numbers(x, n):
    return x.expand(3, *x.shape), n.view(-1)


def beside_kernels(x, w):
    return torch.tanh(x * w).sum(0), x.t(), [w, x.detach()], "word"


def one_that_is_read_too(x):
    columns = x.transpose(0, 1)
    return columns, torch.exp(columns) * 2


def once_more(x):
    y = torch.sin(x)
    return {"y": y, "again": y, "x": x}


def nested(batch):
    return {"twice": batch["a"] * 2, "part": batch["b"][:, 1:], "all": batch["b"]}


def named_like_an_argument(x, scale):
    return x * 3, scale.unsqueeze(0)


def unused_in_the_results(x, w):
    return x.flatten(), torch.sigmoid(w)


def by_strides(x):
    return x.as_strided((2, 3), (1, 2), 1), x.t().as_strided((3,), (2,)), torch.exp(x)


def parts_of_one(x):
    y = x * 2
    first, second = y.t().chunk(2, -1)
    return first, {"second": second}, second[1:], x * 3


def a_value_and_views_of_it(x):
    y = x.exp()
    return y.detach()[0], y, y.t(), y, y.sum(), y[1].detach().view(torch.int32)


def parts_of_complex_numbers(x):
    y = torch.complex(x, x * 2)
    return *y.unbind(), *torch.hsplit(y.sin(), 3), *y.split([1, 3])


def views_of_a_copy(x):
    y = x.exp()
    rows = y.t().reshape(-1)  # it copies
    return rows[0], rows[1:], y


def the_whole_after_a_view(x):
    y = (x @ x.t()).exp()
    return y.t(), y, y.t().unsqueeze(0)


def transposed_before_it(x):
    y = torch.einsum("bd,bkd->bk", x.sin(), x.exp().unsqueeze(1).expand(4, 3, 6))  # itself looks at a product
    return y.T, y, y.T.unsqueeze(0)


def parts_beside_a_transposed(x):
    y = torch.einsum("bd,bkd->bk", x.sin(), x.exp().unsqueeze(1).expand(4, 3, 6))
    return y.T, y[1:], y[:, 2]


def dimensions_moved_first(x):
    y = (x * 2).view(4, 2, 3)
    return y.permute(2, 0, 1), y, y.transpose(0, 1)


def a_part_beside_a_view(x):
    y = (x @ x.t()).exp()
    return y.t(), y[1:], y[:, 2]


def a_part_first(x):
    y = x.exp()
    return y[:2], y


def every_other_one(x):
    y = x.exp()
    return y[:, ::2], y[:, 1::2], y[1:2]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 4))

    def forward(self, x):
        return x @ self.weight, self.weight.t(), x.unsqueeze(1)


CASES: list[tuple[Callable[..., Any], Callable[[], Args]]] = [
    (only_views, lambda: (grad(4, 6),)),
    (detached, lambda: (grad(4, 6),)),
    (of_whole_numbers, lambda: (grad(4, 6), torch.arange(6).view(2, 3))),
    (beside_kernels, lambda: (grad(4, 6), grad(6))),
    (one_that_is_read_too, lambda: (grad(4, 6),)),
    (once_more, lambda: (grad(4, 6),)),
    (nested, lambda: ({"a": grad(3, 2), "b": grad(2, 3)},)),
    (named_like_an_argument, lambda: (grad(3, 2), grad(2))),
    (unused_in_the_results, lambda: (grad(3, 2), grad(2))),
    (by_strides, lambda: (grad(4, 6),)),
    (parts_of_one, lambda: (grad(4, 6),)),
    (a_value_and_views_of_it, lambda: (grad(4, 6),)),
    (parts_of_complex_numbers, lambda: (grad(4, 6),)),
    (views_of_a_copy, lambda: (grad(4, 6),)),
    (the_whole_after_a_view, lambda: (grad(4, 6),)),
    (transposed_before_it, lambda: (grad(4, 6),)),
    (parts_beside_a_transposed, lambda: (grad(4, 6),)),
    (dimensions_moved_first, lambda: (grad(4, 6),)),
    (a_part_beside_a_view, lambda: (grad(4, 6),)),
    (a_part_first, lambda: (grad(4, 6),)),
    (every_other_one, lambda: (grad(4, 6),)),
    (Tied(), lambda: (grad(5, 6),)),
]


def step(function: Callable[..., Any], args: Args) -> dict[str, Any]:
    """What a step leaves, and how its results relate to the arguments."""
    leaves = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]
    results, spec = pytree.tree_flatten(function(*args))
    tensors = [result for result in results if isinstance(result, torch.Tensor)]
    given = {leaf.untyped_storage().data_ptr(): place for place, leaf in enumerate(leaves)}
    found = {
        "spec": spec,
        "plain": [result for result in results if not isinstance(result, torch.Tensor)],
        "values": [result.detach().clone() for result in tensors],
        "strides": [(result.stride(), result.storage_offset()) for result in tensors],
        "flags": [result.requires_grad for result in tensors],
        "memory": [given.get(result.untyped_storage().data_ptr()) for result in tensors],
        "is": [[result is leaf for leaf in leaves] for result in tensors],
        "shared": [
            [one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr() for one in tensors]
            for other in tensors
        ],
        "twins": [[one is other for one in tensors] for other in tensors],
    }
    carrying = [result for result in tensors if result.requires_grad]
    torch.autograd.backward(carrying, [torch.sin(one.detach() + 1) for one in carrying])
    found["gradients"] = [leaf.grad for leaf in leaves]
    module = getattr(function, "original", function)
    if isinstance(module, nn.Module):
        found["weights"] = [parameter.grad for parameter in module.parameters()]
    return found


@pytest.mark.parametrize(("function", "make"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_a_step_is_eager_s(function: Any, make: Callable[[], Args], tmp_path: Path) -> None:
    torch.manual_seed(0)
    args = make()
    longhand.generate(function, args, out=tmp_path / "unit", train=True)
    unit: Any = longhand.load(tmp_path / "unit")
    eager = function
    if isinstance(function, nn.Module):
        function.zero_grad()
        unit = unit()
        unit.load_state_dict(function.state_dict())
    found = step(unit, pytree.tree_map_only(torch.Tensor, again, args))
    expected = step(eager, pytree.tree_map_only(torch.Tensor, again, args))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if name in ("values", "gradients", "weights"):
            for mine, theirs in zip(found[name], value, strict=True):
                assert (mine is None) == (theirs is None), name
                if theirs is not None:
                    torch.testing.assert_close(mine, theirs)
        else:
            assert found[name] == value, name


def again(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def test_a_view_is_written_through(tmp_path: Path) -> None:
    longhand.generate(only_views, (grad(4, 6),), out=tmp_path / "unit", train=True)
    x = torch.randn(4, 6)
    first, *_ = longhand.load(tmp_path / "unit")(x)
    first.zero_()
    assert not x[:, :3].any() and x[:, 3:].all()


def test_the_unit_is_checked_and_renewed(tmp_path: Path) -> None:
    out = tmp_path / "unit"
    spec = "tests.autograd.test_shared_results:for_command_line"
    for command in (
        ["generate", spec, "--out", str(out), "--train"],
        ["verify", str(out)],
        ["check", str(out), "--trust"],
        ["generate", str(out)],
    ):
        assert run(command) == 0, command


def for_command_line() -> tuple[Any, Args]:
    return only_views, (grad(4, 6),)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: (lambda y: (y[0].mul_(3), y[1]))(x * 2), "returns a view of"),
        (lambda x: x[1:].as_strided((3,), (1,), 1) * 2, "autograd gives that no gradient"),
        (lambda x: (x.argmax(), x.t()), "No result of .* depends on anything that requires grad"),
    ],
)
def test_what_is_refused(function: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=words):
        longhand.generate(function, (grad(4, 6),), out=tmp_path / "unit", train=True)


def test_no_result_carries_gradients(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="requires grad"):
        longhand.generate(lambda x: x.detach().t(), (grad(4, 6),), out=tmp_path / "unit", train=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128, torch.int64])
@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.as_strided((2, 2), (1, 2)),
        lambda x: x.as_strided((2, 2), (1, 2), 1),
        lambda x: x[1:].as_strided((2, 2), (1, 3)),
        lambda x: x[:, 1].as_strided((2, 2), (1, 3)),
        lambda x: x.t().as_strided((2, 2), (1, 2), 1),
    ],
)
def test_as_strided_of_an_argument_is_a_view_wherever_it_begins(look, dtype):
    memory = torch.arange(40).to(dtype)
    compiled = longhand.compile(lambda x: (look(x), look(x) * 2))
    for start in (0, 5):
        x = memory[start : start + 12].view(3, 4)
        expected, (view, twice) = look(x), compiled(x)
        assert torch.equal(twice, expected * 2)
        assert view.data_ptr() == expected.data_ptr() and view.stride() == expected.stride()


@pytest.mark.parametrize("dtype", [torch.int16, torch.complex128])
def test_as_strided_of_an_argument_shares_its_memory_whatever_its_type(dtype, tmp_path: Path) -> None:
    x = torch.arange(12).view(3, 4).to(dtype)
    longhand.generate(lambda x: x.as_strided((2, 2), (4, 1), 2), (x,), out=tmp_path / "unit")
    view = longhand.load(tmp_path / "unit")(x)
    x[0, 2] = 50
    assert torch.equal(view, x.as_strided((2, 2), (4, 1), 2))


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda x: (x.imag, x * 2), torch.complex64),
        (lambda x: (x.conj(), x * 2), torch.complex64),
        (lambda x: (torch.view_as_real(x), x * 2), torch.complex64),
        (lambda x: torch.view_as_complex(x), torch.float64),
        (lambda x: (torch.atleast_3d(x), x.exp()), torch.float32),
        (lambda x: torch.atleast_1d(x), torch.complex64),
    ],
)
def test_views_that_no_index_map_tells(function: Any, dtype: torch.dtype, tmp_path: Path) -> None:
    x = torch.randn(3, 2, dtype=dtype)
    longhand.generate(function, (again(x.requires_grad_()),), out=tmp_path / "unit", train=True)
    found, expected = (step(one, (again(x),)) for one in (longhand.load(tmp_path / "unit"), function))
    for name in ("strides", "flags", "memory"):
        assert found[name] == expected[name], name
    for mine, theirs in zip(found["values"], expected["values"], strict=True):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(found["gradients"], expected["gradients"])


class Pooled(nn.Module):
    """Returns states, the first of each as a view, and what a layer makes of that, which its derivative reads."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 8)
        self.out = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        states = self.project(x)
        first = states[:, 0]
        return states, first, self.out(first)


def test_a_view_that_is_returned_and_kept_is_a_view(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Pooled(), torch.randn(2, 3, 8)
    longhand.generate(model, (x,), out=tmp_path / "unit", train=True)  # which tries the unit, too
    unit = longhand.load(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    states, first, out = unit(x)
    assert first.data_ptr() == states.data_ptr() and first.shape == (2, 8)
    (first.square().sum() + out.sum() + states.sin().sum()).backward()
    theirs = model(x)
    (theirs[1].square().sum() + theirs[2].sum() + theirs[0].sin().sum()).backward()
    for name, weight in model.named_parameters():
        torch.testing.assert_close(unit.get_parameter(name).grad, weight.grad)
