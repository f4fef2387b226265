"""cat, stack, pad, roll, embedding, gather, index, triangles and the losses, against eager."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F


def rotate_half(x):
    left, right = x.chunk(2, -1)
    return torch.cat((-right, left), -1)


def test_rotary_embedding_is_one_nest_before_fusion(check):
    x, cos = torch.randn(2, 4, 5, 8), torch.randn(5, 8)
    result = check(lambda x, c: rotate_half(x) * c, x, cos)
    # The negated half is computed inside the cat: two nests, cat and product.
    assert len(result.nests) == 2


def test_cat_of_few_and_many(check):
    parts = [torch.randn(2, n, 3) for n in (1, 4, 2, 5, 3, 6)]
    check(lambda *x: torch.cat(x[:3], 1), *parts)
    check(lambda *x: torch.cat(x, 1), *parts)
    check(lambda a, b: torch.cat((a.transpose(0, 2), b.transpose(0, 2)), -1), parts[1], parts[1] * 2)


def test_cat_of_one_tensor_twice(check):
    x, table = torch.randn(2, 3, 5), torch.randn(5)
    check(lambda x: torch.cat((x, x), -1), x)
    check(lambda x: torch.cat((x, x), 1), x)
    check(lambda x: torch.cat((x.exp(), x.exp()), -1), x)
    check(lambda x: torch.cat((x.transpose(0, 2), x.transpose(0, 2)), -1), x)
    made = check(lambda x, t: torch.cat((y := x[..., None, 0] * t, y), -1).cos(), x, table)
    # The table is read by each half, without a choice between two values.
    assert not any(getattr(value, "mask", None) is not None for nest in made.nests for value in nest.body)


def test_stack(check):
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    for dim in range(-3, 3):
        check(lambda a, b, dim=dim: torch.stack((a, b.exp()), dim), a, b)
    check(lambda a, b: torch.stack((a, b, a, b, b), 1), a, b)


def test_pad_and_roll(check):
    x = torch.randn(2, 3, 5)
    check(lambda x: torch.constant_pad_nd(x, (1, 2, 0, 1), 3.0), x)
    check(lambda x: torch.constant_pad_nd(x, (-1, 2)), x)
    check(lambda x: torch.roll(x, 2, 1), x)


def test_embedding_and_index(check):
    table, ids = torch.randn(10, 6), torch.randint(0, 10, (2, 5))
    check(lambda t, i: F.embedding(i, t), table, ids)
    check(lambda t, i: t[i - 10], table, ids)
    check(lambda t, i: t.t()[:, i], table, ids)
    check(lambda t, i: torch.gather(t, 1, i[:, :3].clamp(max=5)), table, ids)
    check(lambda t, i: torch.index_select(t, 0, i[0]), table, ids)
    check(lambda t, i: t.view(2, 5, 6)[i.clamp(max=1), :, i.clamp(max=5)], table, ids)


def test_a_position_out_of_range_is_nan_and_reads_nothing_else(check):
    from longhand.lower.ir import Load

    result = check(lambda t, i: F.embedding(i, t), torch.randn(4, 3), torch.tensor([0, 3]))
    inputs = dict(result.inputs)
    names = list(inputs)
    inputs[names[1]] = torch.tensor([4, -1])
    (found,) = result.run(inputs)
    assert found.isnan().all()
    assert any(isinstance(value, Load) and value.mask is not None for value in result.nests[0].body)


def test_an_integer_table_keeps_eagers_error(check):
    check(lambda t, i: t[i], torch.arange(5), torch.tensor([1, 2]), externs=1)


def test_triangles_and_ranges(check):
    x = torch.randn(2, 4, 5)
    check(lambda x: (x.tril(), x.triu(1), x.tril(-1)), x)
    check(lambda x: torch.arange(5) * x, x)
    check(lambda x: torch.arange(2, 12, 2) * x, x)
    check(lambda x: torch.linspace(0, 1, 5) + x, x)
    check(lambda x: torch.eye(4, 5) + torch.zeros(4, 5) + x, x)


@pytest.mark.parametrize("ends", [(4.3, -3), (-3.7, 9.9), (0, 1000003), (2.5, 2.5)])
def test_linspace_of_integers_rounds_its_ends_first(check, ends):
    x = torch.zeros(51, dtype=torch.int64)
    check(lambda x: torch.linspace(*ends, 51, dtype=torch.int64) + x, x, externs=1)


def test_cross_entropy(check):
    logits, target = torch.randn(6, 9), torch.randint(0, 9, (6,))
    target[2] = -100
    for reduction in ("none", "mean", "sum"):
        check(lambda x, t, r=reduction: F.cross_entropy(x, t, reduction=r), logits, target)
        check(
            lambda x, t, r=reduction: F.cross_entropy(x, t, reduction=r, label_smoothing=0.1), logits, target
        )
    check(lambda x, t: F.cross_entropy(x.view(2, 3, 9).transpose(1, 2), t.view(2, 3)), logits, target)


def test_losses(check):
    x, y = torch.rand(3, 4), torch.rand(3, 4)
    for reduction in ("none", "mean", "sum"):
        for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy):
            check(lambda x, y, f=loss, r=reduction: f(x, y, reduction=r), x, y)


def test_scatter_of_a_slice(check):
    x, y = torch.randn(3, 6), torch.randn(3, 2)

    def write(x, y):
        x = x.clone()
        x[:, 2:4] = y
        x[1] = 0.0
        return x * 2

    check(write, x, y)


def test_results_in_one_line_are_read_as_they_lie(check):
    x = torch.randn(6, 8)
    check(lambda x: torch.argsort(x.flatten()) * 2, x, externs=1)
    check(lambda x: tuple(part * 2 for part in torch.topk(x, 3)), x, externs=1)
    check(lambda x: tuple(part * 2 for part in torch.topk(x.t(), 3)), x, externs=1)
