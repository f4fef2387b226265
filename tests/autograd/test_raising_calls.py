"""What eager raises in the forward pass of a training step, the step raises, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import longhand

Call = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

CALLS: dict[str, Call] = {
    "cholesky": lambda x, scale: (torch.linalg.cholesky(x) * scale).sum(),
    "inv": lambda x, scale: (torch.linalg.inv(x) * scale).sum(),
    "solve": lambda x, scale: (torch.linalg.solve(x, torch.ones(3, 1)) * scale).sum(),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("is_differentiated", [False, True])
def test_a_matrix_that_has_none_raises_in_training(name: str, is_differentiated: bool) -> None:
    """`is_differentiated`: the matrix requires grad, so that its derivative reads what was checked."""
    call = CALLS[name]
    compiled = longhand.compile(call)
    results = []
    for run in (call, compiled):
        x, scale = torch.eye(3, requires_grad=is_differentiated), torch.tensor(2.0, requires_grad=True)
        run(x, scale).backward()
        results.append([one.grad for one in (x, scale)])
        with pytest.raises(torch.linalg.LinAlgError):
            run(torch.zeros(3, 3, requires_grad=is_differentiated), scale)
    torch.testing.assert_close(*results)
