"""Losses of classes: weights, smoothing, ignored rows, probabilities as targets, and what log_softmax feeds."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from longhand.lower.ir import Nest, Reduce

N_CLASSES = 37
REDUCTIONS = ["none", "mean", "sum"]


def labels(*shape: int, n_classes: int = N_CLASSES, ignored: int = -100) -> torch.Tensor:
    """Labels, some of them twice, one of them ignored."""
    found = torch.randint(0, n_classes, shape)
    found.view(-1)[:1] = ignored
    return found


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(7, N_CLASSES), (N_CLASSES,), (3, N_CLASSES, 5), (2, N_CLASSES, 3, 1)])
def test_cross_entropy(check, shape, weighted, smoothing, reduction):
    target = labels(*shape[:1], *shape[2:]) if len(shape) > 1 else torch.tensor(3)
    weight = torch.rand(N_CLASSES) if weighted else torch.ones(0)

    def loss(x, target, weight):
        return F.cross_entropy(
            x, target, weight if weighted else None, label_smoothing=smoothing, reduction=reduction
        )

    check(loss, torch.randn(shape) * 5, target, weight)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(7, N_CLASSES), (N_CLASSES,), (3, N_CLASSES, 5), (4, 1)])
def test_cross_entropy_with_probabilities(check, shape, weighted, smoothing, reduction):
    dim = 1 if len(shape) > 1 else 0
    target = torch.softmax(torch.randn(shape), dim)
    weight = torch.rand(shape[dim]) if weighted else torch.ones(0)

    def loss(x, target, weight):
        return F.cross_entropy(
            x, target, weight if weighted else None, label_smoothing=smoothing, reduction=reduction
        )

    check(loss, torch.randn(shape) * 5, target, weight)


def test_probabilities_with_an_ignored_label_stay_with_eager_and_its_error(check):
    x, target = torch.randn(3, 4), torch.rand(3, 4)
    with pytest.raises(RuntimeError, match="ignore_index"):
        check(lambda x, target: F.cross_entropy(x, target, ignore_index=2), x, target)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(7, N_CLASSES), (N_CLASSES,), (3, N_CLASSES, 5), (2, N_CLASSES, 3, 2)])
@pytest.mark.parametrize("from_logits", [False, True])
def test_nll_loss(check, from_logits, shape, weighted, reduction):
    target = labels(*shape[:1], *shape[2:], ignored=5) if len(shape) > 1 else torch.tensor(3)
    weight = torch.rand(N_CLASSES) if weighted else torch.ones(0)

    def loss(x, target, weight):
        x = F.log_softmax(x, 1 if len(shape) > 1 else 0) if from_logits else x
        return F.nll_loss(x, target, weight if weighted else None, ignore_index=5, reduction=reduction)

    check(loss, torch.randn(shape), target, weight)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", [1, 2])
@pytest.mark.parametrize("shape", [(7, N_CLASSES), (N_CLASSES,)])
def test_nll_loss_forward_and_backward(check, shape, reduction, weighted):
    target = labels(*shape[:1]) if len(shape) > 1 else torch.tensor(3)
    weight = torch.rand(N_CLASSES) if weighted else torch.ones(0)

    def both(x, target, weight, gradient):
        weight = weight if weighted else None
        loss, total = torch.ops.aten.nll_loss_forward(x, target, weight, reduction, -100)
        return (
            loss,
            total,
            torch.ops.aten.nll_loss_backward(gradient, x, target, weight, reduction, -100, total),
        )

    check(both, torch.randn(shape), target, weight, torch.tensor(1.7))


def test_nll_loss_backward_of_every_row(check):
    def backward(x, target, gradient):
        total = x.new_zeros(())
        return torch.ops.aten.nll_loss_backward(gradient, x, target, None, 0, -100, total)

    check(backward, torch.randn(7, N_CLASSES), labels(7), torch.randn(7))


@pytest.mark.parametrize("dim", [1, -1, 0])
def test_gather_from_log_softmax(check, dim):
    x = torch.randn(3, 11, N_CLASSES) * 4
    shape = list(x.shape)
    shape[dim] = 1
    index = torch.randint(0, x.shape[dim], shape)
    program = check(lambda x, index: x.log_softmax(dim).gather(dim, index).squeeze(dim), x, index).program
    assert len(program.steps) == 1, "the log probabilities are stored"


def test_gather_of_several_or_of_what_others_read_keeps_the_log_probabilities(check):
    x, index = torch.randn(5, N_CLASSES), torch.randint(0, N_CLASSES, (5, 3))
    check(lambda x, index: x.log_softmax(-1).gather(-1, index), x, index)

    def both(x, index):
        log_probs = x.log_softmax(-1)
        return log_probs, log_probs.gather(-1, index[:, :1])

    check(both, x, index)


def test_log_softmax_that_nll_loss_alone_reads_is_never_stored(check):
    x, target = torch.randn(7, N_CLASSES), labels(7)
    lowered = check(lambda x, target: F.nll_loss(x.log_softmax(-1), target), x, target)
    assert len(lowered.nests) == 2
    assert not any(
        buffer.shape == x.shape for name, buffer in lowered.program.buffers.items() if name != "arg0_1"
    )


def test_nll_loss_reads_one_element_of_each_row(check):
    lowered = check(lambda x, target: F.nll_loss(x, target, reduction="none"), torch.randn(7, 37), labels(7))
    (nest,) = lowered.nests
    assert isinstance(nest, Nest) and [axis.size for axis in nest.axes] == [7]
    assert not any(isinstance(value, Reduce) for value in nest.body)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_other_dtypes(check, dtype, smoothing):
    x, weight = torch.randn(9, N_CLASSES, dtype=dtype), torch.rand(N_CLASSES, dtype=dtype)
    check(lambda x, y, w: F.cross_entropy(x, y, w, label_smoothing=smoothing), x, labels(9), weight)
    check(lambda x, y: F.cross_entropy(x, y), x, torch.softmax(x, -1))
    check(lambda x, y: F.nll_loss(x.log_softmax(-1), y), x, labels(9))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_nan_infinity_and_rows_that_are_all_ignored(check, smoothing):
    x = torch.randn(4, 5)
    x[0, 1], x[1, 2], x[2, 3] = math.nan, math.inf, -math.inf
    weight = torch.tensor([0.0, 1.0, 2.0, 0.0, 1.0])
    for target in (torch.tensor([1, 2, 3, 0]), torch.tensor([0, 0, 0, 0]), torch.full((4,), -100)):
        for reduction in REDUCTIONS:
            check(
                lambda x, y, w, reduction=reduction: (
                    F.cross_entropy(x, y, w, label_smoothing=smoothing, reduction=reduction),
                    F.cross_entropy(x, y, label_smoothing=smoothing, reduction=reduction),
                    F.cross_entropy(x, torch.softmax(w.expand(4, 5), -1), reduction=reduction),
                ),
                x,
                target,
                weight,
            )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_small_losses_behind_large_logits(check, smoothing):
    """The largest logit goes first: a loss of 1e-3 has no digits beside 10,000."""
    x = 10_000 + 3 * torch.rand(6, 5)
    x[:3, 0] += 7
    target, weight = torch.tensor([0, 0, 0, 1, 2, 3]), torch.rand(5)
    check(
        lambda x, y, w: (
            F.cross_entropy(x, y, w, label_smoothing=smoothing, reduction="none"),
            F.cross_entropy(x, y, label_smoothing=smoothing, reduction="none"),
            F.nll_loss(x.log_softmax(-1), y, reduction="none"),
            x.log_softmax(-1).gather(1, y[:, None]),
        ),
        x,
        target,
        weight,
    )


def test_symbolic_sizes(check):
    x, target, weight = torch.randn(7, N_CLASSES), labels(7), torch.rand(N_CLASSES)
    check(
        lambda x, y, w: F.cross_entropy(x, y, w, label_smoothing=0.1) + F.nll_loss(x, y),
        x,
        target,
        weight,
        symbolic=True,
    )


def test_a_label_out_of_range_gives_nan(check):
    lowered = check(
        lambda x, y: F.nll_loss(x.log_softmax(-1), y, reduction="none"),
        torch.randn(3, 5),
        labels(3, n_classes=5),
    )
    names = list(lowered.inputs)
    inputs = {names[0]: torch.randn(3, 5), names[1]: torch.tensor([1, 5, -1])}
    (found,) = lowered.run(inputs)
    assert found.isnan().tolist() == [False, True, True]
