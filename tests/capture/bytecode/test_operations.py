"""Tensor operations of every kind, captured, against eager."""

import pytest
import torch

from tests.capture.bytecode.behaviours import Behaviours, X, Y
from tests.capture.bytecode.running import Captured, assert_same

BEHAVIOURS = Behaviours()
behaviour = BEHAVIOURS.behaviour


@behaviour((X,), breaks=None)
def nonzero_and_unique(x):
    return torch.nonzero(x > 0), x[x > 0], x.unique(), torch.where(x > 0), x.masked_select(x > 0)


@behaviour((X,), breaks=None)
def allclose_and_equal(x):
    return torch.allclose(x, x), torch.equal(x, x + 1), bool((x == x).all()), x.sum().item() > 0


@behaviour((X,), breaks=None)
def tensor_constructors(x):
    return (
        torch.full((2, 2), 3.0),
        torch.eye(2),
        torch.linspace(0, 1, 3),
        torch.tensor([[1, 2]]),
        torch.empty(0),
        torch.zeros_like(x, dtype=torch.int32),
        torch.ones(2, 3, dtype=x.dtype),
        torch.as_tensor([1.0]),
        torch.tensor(3),
        x.new_full((2,), 7.0),
        x.new_tensor([1.0]),
        torch.arange(0, 10, 3),
        torch.tril(torch.ones(3, 3)),
    )


@behaviour((X,), breaks=None)
def advanced_indexing(x):
    idx = torch.tensor([0, 2])
    y = x.clone()
    y[idx] = 0
    y[:, [0, 1]] += 1
    y[y > 1] = 5
    y[0, ...] = x[1]
    return (
        y,
        x[idx, idx],
        x[..., -1],
        x[:, None, 1],
        x[idx[:, None], torch.tensor([0, 1])],
        x.index_select(0, idx),
        x.gather(1, torch.zeros(3, 1, dtype=torch.long)),
        x[-1, ::2],
        x[True].shape,
    )


@behaviour((X,), breaks=None)
def scatter_and_index_ops(x):
    y = torch.zeros_like(x)
    idx = torch.zeros(x.shape[0], 1, dtype=torch.long)
    y.scatter_(1, idx, 3.0)
    z = y.index_add(0, torch.tensor([0]), x[:1])
    return y, z, y.index_fill(1, torch.tensor([1]), -1.0), x.masked_fill(x > 0, 0)


@behaviour((X,), breaks=None)
def views_and_writes(x):
    a = x.view(-1)
    b = a[2:5]
    b.zero_()
    c = x.t()
    c[0] += 1
    d = x.unsqueeze(0).expand(2, -1, -1)
    e = x.narrow(0, 0, 2)
    e.mul_(2)
    return x, a, b, c, d.sum(), e, x.unflatten(1, (2, 2))[:, 1]


@behaviour((X,))
def out_argument(x):
    y = torch.empty_like(x)
    torch.add(x, 1, out=y)
    return y, torch.mul(x, 2, out=y) is y


@behaviour((X, Y))
def out_is_an_argument_or_a_view(x, y):
    torch.maximum(x, y, out=y)
    wide = torch.zeros(2, *x.shape, dtype=torch.float64)
    before = wide[1]
    torch.add(x, y, out=wide[1])
    values, places = torch.empty(x.shape[1]), torch.empty(x.shape[1], dtype=torch.long)
    found = torch.max(x, 0, out=(values.to(x.dtype), places))
    return wide, before * 2, found.values, places, torch.sum(x, 0, out=None)


@behaviour((X,), breaks=None)
def out_of_other_sizes(x):
    y = torch.empty(0)
    torch.add(x.float(), 1, out=y)
    return y.shape, y * 2


@behaviour((X.clone().requires_grad_(),), breaks=None)
def out_with_gradients(x):
    y = torch.empty_like(x)
    try:
        torch.mul(x, 2, out=y)
    except RuntimeError as error:
        return str(error)
    return y


@behaviour((X.clone().requires_grad_(), X * 0), breaks=None)
def out_without_gradients(x, y):
    with torch.no_grad():
        torch.mul(x, 2, out=y)
    return y, y.requires_grad


@behaviour((X,))
def tensors_that_are_made_of_known_numbers(x):
    """As a model's that keep sizes in tensors: their values are known, so they are sizes again."""
    shape = torch.cat([torch.as_tensor([-1]), torch.as_tensor([1, 2])])
    sizes = torch.tensor([[2, 3], [4, 5]])
    total = sizes.prod(1).sum()
    if total > 3:
        x = x + 1
    rows = [torch.arange(0, height) * width for height, width in sizes]
    kept = sizes[0]
    parts = x.repeat(kept.tolist()), x[: sizes[0, 0]], torch.zeros(total), torch.full((kept[1],), 2.0)
    return (
        x.reshape(shape.tolist()),
        rows,
        parts,
        int(total),
        float(total),
        kept[0].item(),
        bool(kept[0] == 2),
    )


@behaviour((X,), breaks=None)
def known_numbers_that_are_written_to(x):
    sizes = torch.tensor([1, 2, 3])
    first, doubled = sizes[0], sizes * 2
    sizes.add_(1)
    sizes[2] += 5
    second = sizes.clone()
    second += 1
    torch.add(sizes, 1, out=second[:3])
    more = torch.ones(2, dtype=torch.long)
    more.copy_(x.long()[0, :2].abs() + 1)
    return x.repeat(first, 1), doubled.tolist(), sizes.tolist(), second.tolist(), more.sum().item()


@behaviour((X,))
def tensors_that_are_made_of_sizes(x):
    """Under dynamic=True one graph for all sizes (see below)."""
    rows, columns = x.shape
    return (
        torch.tensor([rows, 2]),
        torch.tensor(rows * 2),
        torch.as_tensor(x.shape),
        torch.tensor([[rows, 1.5], [columns, True]]),
        torch.tensor((rows, rows / 2), dtype=torch.float64),
        torch.tensor([rows, columns], dtype=torch.int32, device=x.device) + x.long()[0, :2].int(),
        x / torch.tensor(rows),
    )


def test_a_tensor_of_sizes_is_one_graph_for_all_of_them(hook):
    captured = Captured(tensors_that_are_made_of_sizes, dynamic=True)
    for rows in (3, 5, 8):
        x = torch.randn(rows, 4)
        assert_same(captured(x), tensors_that_are_made_of_sizes(x))
    assert (captured.count("graph"), captured.count("recompile")) == (1, 0)


@behaviour((X,), breaks=None)
def numbers_that_are_not_known(x):
    torch.manual_seed(3)
    drawn = torch.randint_like(torch.tensor([5, 5]), 9)
    wide = torch.tensor([x.shape[0], 2])
    return (
        drawn.tolist(),
        wide.tolist(),
        torch.tensor([0.5, 2.0]).sum().item(),
        torch.tensor(list(range(300))).sum().item(),
    )


@behaviour((X,), breaks=None)
def metadata_changes(x):
    y = x.clone()
    y.unsqueeze_(0)
    z = x.clone().t_()
    w = x.clone()
    w.resize_(2, 2)
    return y, z, w


@behaviour((X,), breaks=None)
def data_attribute(x):
    y = x.clone()
    y.data = x * 2
    return y + 1, x.data + 1


@behaviour((X,), breaks=None)
def tensor_attributes_are_set(x):
    y = x + 1
    y.tag = "t"
    return y * 2, y.tag, hasattr(x, "tag"), getattr(x, "nothing", 3)


@behaviour((X,), breaks=None)
def type_promotion(x):
    i = torch.tensor([1, 2, 3, 4])
    return (
        x + i,
        i / 2,
        i // 2,
        i + 1.5,
        (x > 0) + 1,
        torch.true_divide(i, 3),
        x.half() + x,
        i.float() * True,
        2**i,
        1 - x,
        3 // (i),
        7 % i,
        x.bool() & True,
    )


@behaviour((X,), breaks=None)
def complex_numbers(x):
    z = torch.complex(x, x + 1)
    return z * 1j, z.real, z.abs(), z.conj(), torch.fft.fft(x).abs()


@behaviour((X,), breaks=None)
def linear_algebra(x):
    a = x @ x.T + torch.eye(x.shape[0]) * 10
    return (
        torch.linalg.inv(a),
        torch.linalg.norm(x),
        torch.linalg.cholesky(a),
        x.norm(dim=1),
        torch.linalg.svd(x)[1],
        torch.outer(x[0], x[0]),
        torch.det(a),
    )


@behaviour((X,), breaks=None)
def reductions(x):
    return (
        x.sum(),
        x.mean(0),
        x.std(),
        x.var(1, unbiased=False),
        x.amax(-1),
        x.argmax(),
        x.prod(0),
        x.cumsum(1),
        x.logsumexp(1),
        x.median(),
        x.min(0),
        x.any(),
        (x > -9).all(),
        x.aminmax(),
        x.quantile(0.5),
        x.count_nonzero(),
    )


@behaviour((X,), breaks=None)
def tensor_lists(x):
    parts = list(x.split(2, dim=1))
    parts.append(x[:, :1])
    parts[0] = parts[0] * 2
    torch._foreach_add_(parts, 1.0)
    return parts, torch.cat(parts, 1), [p.shape for p in parts]


@behaviour((X,), breaks=None)
def shape_arithmetic(x):
    b, n = x.shape
    s = x.shape + (1,)
    return (
        x.view(*x.shape[:-1], 2, n // 2),
        x.reshape(b * n),
        s,
        x.shape[:-1],
        torch.Size([b, n]) == x.shape,
        b * n == x.numel(),
        x.size(-1),
        list(x.shape),
        (n + 3) // 4,
        x.new_zeros(x.shape),
        x.expand(2, *x.shape).shape,
        -n % 3,
        n**2,
        n / 2,
        max(b, n),
        [0] * b,
        range(n),
        str(n),
        f"{n}",
    )


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_behaviour(hook, name):
    BEHAVIOURS.check(name)
