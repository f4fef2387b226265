"""Positions that are data, negative or out of range: eager's result or error, or NaN where a kernel reads a table."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import longhand

TABLE = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
ROWS = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
POSITIONS = ((0, 5, 2), (1, 1, 1), (-1, 0, -6), (0, 6, 1), (0, -7, 1), (0, 2**40, 1), (-(2**63), 0, 1))

AS_EAGER = {
    "index_add": lambda x, i, t: (x * 1).index_add(0, i, t) * 2,
    "index_copy": lambda x, i, t: (x * 1).index_copy(0, i, t) * 2,
    "index_fill": lambda x, i, t: (x * 1).index_fill(0, i, 3.0) * 2,
    "index_put": lambda x, i, t: (x * 1).index_put((i,), t) * 2,
    "index_put_accumulate": lambda x, i, t: (x * 1).index_put((i,), t, accumulate=True) * 2,
    "one_hot": lambda x, i, t: F.one_hot(i, 6) * 2,
    "scatter": lambda x, i, t: (x * 1).scatter(0, i[:, None].expand(3, 4), t) * 2,
    "scatter_add": lambda x, i, t: (x * 1).scatter_add(0, i[:, None].expand(3, 4), t) * 2,
    "scatter_reduce": lambda x, i, t: (x * 1).scatter_reduce(0, i[:, None].expand(3, 4), t, "amax") * 2,
    "put": lambda x, i, t: (x * 1).put(i, t[:, 0]) * 2,
    "embedding_bag": lambda x, i, t: F.embedding_bag(i[None], x) * 2,
    "index_of_whole_numbers": lambda x, i, t: x.long()[i] * 2,
}
NAN_OUT_OF_RANGE = {
    "index": lambda x, i, t: x[i] * 2,
    "take": lambda x, i, t: x.take(i) * 2,
    "index_select": lambda x, i, t: x.index_select(0, i) * 2,
    "embedding": lambda x, i, t: F.embedding(i, x) * 2,
    "gather": lambda x, i, t: x.gather(0, i[:, None].expand(3, 4)) * 2,
    "nll_loss": lambda x, i, t: F.nll_loss(t.log_softmax(-1), i, reduction="none") * 2,
    "cross_entropy": lambda x, i, t: F.cross_entropy(t, i, reduction="none") * 2,
}


def outcome(function, positions):
    try:
        return function(TABLE.clone(), torch.tensor(positions), ROWS.clone())
    except (IndexError, RuntimeError) as error:
        return type(error)


@torch.no_grad()
@pytest.mark.parametrize("name", AS_EAGER)
def test_as_in_eager(name):
    compiled = longhand.compile(AS_EAGER[name])
    for positions in POSITIONS:
        eager, ours = outcome(AS_EAGER[name], positions), outcome(compiled, positions)
        if isinstance(eager, type):
            assert ours is eager, positions
        else:
            torch.testing.assert_close(ours, eager)


@torch.no_grad()
@pytest.mark.parametrize("name", NAN_OUT_OF_RANGE)
def test_nan_where_eager_raises(name):
    function, compiled = NAN_OUT_OF_RANGE[name], longhand.compile(NAN_OUT_OF_RANGE[name])
    n_raised = 0
    for positions in POSITIONS:
        ours = outcome(compiled, positions)
        for place, position in enumerate(positions):
            eager = outcome(function, (position,) * 3)
            if isinstance(eager, type):
                n_raised += 1
                assert ours[place].isnan().all(), (positions, place)
            else:
                torch.testing.assert_close(ours[place], eager[place])
    assert n_raised
