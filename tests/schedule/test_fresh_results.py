"""Calls of the library whose results are memory of their own: kernels may write over those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from longhand.schedule.memory.lifetimes import FRESH_RESULTS
from longhand.schedule.plan import Reuse
from tests.schedule.test_scheduler import planned, rand

aten = torch.ops.aten
IMAGES, FILTERS, POINTS, ONE = rand(2, 4, 6, 6), rand(4, 4, 3, 3), rand(4, 4, 1, 1), rand(1, 1, 1, 1)
EVERYWHERE = torch.zeros(2, 4, 6, 6, dtype=torch.int64)


def of_filters(padding: int, size: int = 4) -> tuple[Any, ...]:
    """What convolution_backward() takes after its tensors."""
    return (size,), (1, 1), (padding, padding), (1, 1), False, (0, 0), 1, (True, True, True)


# Where nothing would have to be computed: windows of one pixel, the same size, one element.
CALLS: list[tuple[Any, Sequence[Any]]] = [
    (aten.convolution_backward.default, (IMAGES, IMAGES, FILTERS, *of_filters(1))),
    (aten.convolution_backward.default, (IMAGES, IMAGES, POINTS, *of_filters(0))),
    (aten.convolution_backward.default, (ONE, ONE, ONE, *of_filters(0, size=1))),
    (aten.gather.default, (IMAGES, 3, EVERYWHERE)),
    (aten.embedding_dense_backward.default, (rand(4, 8), torch.arange(4), 4, -1, False)),
    (aten.avg_pool2d_backward.default, (IMAGES, IMAGES, (1, 1), (1, 1), (0, 0), False, True, None)),
    (aten._adaptive_avg_pool2d_backward.default, (IMAGES, IMAGES)),
    (
        aten.max_pool2d_with_indices_backward.default,
        (IMAGES, IMAGES, (1, 1), (1, 1), (0, 0), (1, 1), False, EVERYWHERE),
    ),
    (aten.upsample_nearest1d.default, (rand(2, 4, 6), (6,))),
    (aten.upsample_nearest1d_backward.default, (rand(2, 4, 6), (6,), (2, 4, 6))),
    (aten.upsample_nearest2d.default, (IMAGES, (6, 6))),
    (aten.upsample_nearest2d.vec, (IMAGES, None, (1.0, 1.0))),
    (aten.upsample_nearest2d_backward.default, (IMAGES, (6, 6), IMAGES.shape)),
    (aten.upsample_nearest3d.default, (IMAGES[None], (4, 6, 6))),
    (aten.upsample_nearest3d_backward.default, (IMAGES[None], (4, 6, 6), IMAGES[None].shape)),
    (aten.upsample_bilinear2d.default, (IMAGES, (6, 6), False)),
    (aten.upsample_bilinear2d_backward.default, (IMAGES, (6, 6), IMAGES.shape, False)),
    (aten.upsample_bicubic2d.default, (IMAGES, (6, 6), False)),
    (aten.upsample_bicubic2d_backward.default, (IMAGES, (6, 6), IMAGES.shape, False)),
]


@pytest.mark.parametrize(("op", "args"), CALLS, ids=[f"{n} {op}" for n, (op, _) in enumerate(CALLS)])
def test_nothing_that_it_is_given_is_handed_on(op: Any, args: Sequence[Any]) -> None:
    assert op._schema.name.removeprefix("aten::") in FRESH_RESULTS
    made = op(*args)
    results = made if isinstance(made, tuple) else (made,)
    places = [one.untyped_storage().data_ptr() for one in (*args, *results) if isinstance(one, torch.Tensor)]
    given = {one.untyped_storage().data_ptr() for one in args if isinstance(one, torch.Tensor)}
    assert len({*places}) == len(given) + len(results)


def test_the_gradient_of_an_image_is_written_over() -> None:
    def function(
        d_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, head: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        d_x, d_weight, _ = aten.convolution_backward(
            d_out, x, weight, None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, (True, True, False)
        )
        return torch.mm((d_x * x).reshape(8, 36), head), d_weight

    plan = planned(function, IMAGES, IMAGES, FILTERS, rand(36, 4), target="cuda")
    assert [step.in_place for step in plan.steps if isinstance(step, Reuse)] == [True]
