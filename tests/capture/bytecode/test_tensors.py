"""Tensor operations, types, layouts, captured, against eager."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.capture.bytecode.behaviours import Behaviours, X, Y

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


@behaviour((X, Y))
def operators(x, y):
    return x + y - 2 * x / y // 1 % 3, -x, x**2, x @ y.T, x < y, ~(x > 0), +x


@behaviour((X,))
def pythons_types_as_dtypes(x):
    ones = torch.ones(3, dtype=int), torch.zeros(3, dtype=float), torch.full((3,), 2, dtype=bool)
    return x.to(int), x.to(float), x > torch.zeros_like(x, dtype=bool), ones


@behaviour((X, Y))
def inplace_operators(x, y):
    z = x.clone()
    z += y
    z *= 2
    z -= 1
    z /= 3
    return z


@behaviour((X, Y))
def input_is_written(x, y):
    x.add_(y)
    x[0] = 1
    return x * 2


@behaviour((X,))
def view_is_written(x):
    row = x[1]
    row.mul_(10)
    return row, x.sum()


@behaviour((X,))
def returns_its_argument(x):
    y = x + 1
    return x, y, x


@behaviour((X,))
def indexing(x):
    return (
        x[0],
        x[:, 1],
        x[..., None],
        x[1:, ::2],
        x[None],
        x[x.shape[0] - 1],
        x[[0, 2]],
        x[torch.tensor([1, 0])],
    )


@behaviour((X,))
def masks(x):
    return torch.where(x > 0, x, 0.0), x.masked_fill(x < 0, -1.0)


@behaviour((X,))
def shapes(x):
    b, n = x.shape
    return x.view(n, b), x.reshape(-1), x.size(0), x.size(), x.dim(), x.ndim, len(x), x.numel(), x.shape[-1]


@behaviour((X,))
def properties(x):
    return x.T + 1, x.dtype, x.device, x.requires_grad, x.is_cuda, x.mT * 2


@behaviour((X,))
def tensor_methods(x):
    return (
        x.sin().cos().sum(dim=-1, keepdim=True),
        x.max(dim=0),
        x.topk(2),
        x.chunk(2, dim=1),
        x.split([1, 3], dim=1),
    )


@behaviour((X,))
def named_results(x):
    values, indices = x.sort(dim=1)
    best = x.max(1)
    return values, indices, best.values, best.indices


@behaviour((X,))
def conversions(x):
    return x.to(torch.float64), x.half().float(), x.type_as(x.double()), x.long(), x.bool()


@behaviour((X,))
def creation(x):
    return (
        torch.zeros(3) + x.sum(),
        torch.arange(4) * x[0],
        torch.ones_like(x),
        x.new_zeros(2),
        torch.tensor([1.0, 2.0]),
    )


@behaviour((X, Y))
def joining(x, y):
    return (
        torch.cat([x, y]),
        torch.stack((x, y), dim=1),
        torch.einsum("ij,kj->ik", x, y),
        torch.cat([x] * 2, -1),
    )


@behaviour((X,))
def functional(x):
    return F.gelu(x), F.softmax(x, dim=-1), F.layer_norm(x, (4,)), F.pad(x, (1, 1)), F.relu(x, inplace=False)


@behaviour((X,))
def unpacked_rows(x):
    a, b, c = x
    first, *rest = x
    return a + b + c, first, rest


@behaviour((X,))
def loop_over_rows(x):
    total = 0
    for row in x:
        total = total + row.sum()
    return total


@behaviour((X,))
def random_numbers(x):
    return x + torch.rand(3, 4), F.dropout(x, 0.5, training=True), torch.randn_like(x)


@behaviour((X,))
def iteration_with_zip(x):
    return [a * b for a, b in zip(x.unbind(0), range(3), strict=False)]


@behaviour((X,))
def type_checks(x):
    return (
        isinstance(x, torch.Tensor),
        isinstance(3, int),
        isinstance(nn.ReLU, type),
        issubclass(nn.ReLU, nn.Module),
        x.is_floating_point(),
        torch.is_tensor(x),
        type(x) is torch.Tensor,
        x + 1,
    )


@behaviour((X,))
def torch_state(x):
    return (
        x + torch.finfo(x.dtype).eps,
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.jit.is_scripting(),
        torch._C._get_tracing_state(),
        torch._C._is_tracing(),  # asked by modules with hooks from torch 2.15 on
    )


@behaviour((X,))
def devices_and_types(x):
    y = torch.zeros(2, dtype=x.dtype, device=x.device)
    return y + 1, x.device.type, torch.device("cpu") == x.device, x.dtype.is_floating_point


@behaviour(
    (X, torch.ones(3, 4), 1),
    (X.double(), torch.ones(3, 4), 1),
    (X.T, torch.ones(4, 3), 1),
    (X[:2], torch.ones(4), 2),
)
def other_types_and_layouts(x, y, n):
    return x * y + n


@behaviour((X,), (X.clone().requires_grad_(),))
def gradients_are_wanted(x):
    return (x * 2).sum()


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
