"""What eager refuses for a number in it is refused compiled, too: no kernel cuts the number, or makes it infinite."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import longhand
from longhand.errors import EagerWarning

Call = Callable[[torch.Tensor], torch.Tensor]

CALLS: dict[str, Call] = {
    "clamp": lambda x: x.clamp(max=1e308),
    "from below": lambda x: x.clamp(min=-300),
    "where": lambda x: torch.where(x > 0, x, 1e308),
    "masked_fill": lambda x: x.masked_fill(x > 0, 300),
    "masked_fill with much": lambda x: x.masked_fill(x > 0, -1e9),
    "full": lambda x: torch.full((3,), 1e308, dtype=x.dtype) + x,
    "alpha": lambda x: torch.add(x, x, alpha=1e308),
    "power": lambda x: x.pow(1e308),
    "from bools": lambda x: 1.5 - x,
    "plus": lambda x: x + 1e308,
    "equal": lambda x: x == 300,
    "relu6": lambda x: F.relu6(x),
}
DTYPES = (torch.float32, torch.float16, torch.int8, torch.uint8, torch.bool)


def outcome(run: Callable[[], torch.Tensor]) -> torch.Tensor | str:
    try:
        return run()
    except RuntimeError as error:
        return str(error).splitlines()[0]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_eagers_refusal_is_the_compiled_calls(name: str, dtype: torch.dtype) -> None:
    call, x = CALLS[name], torch.tensor([0, 1, 1]).to(dtype)
    expected = outcome(lambda: call(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EagerWarning)
        found = outcome(lambda: longhand.compile(call)(x))
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected
    else:
        torch.testing.assert_close(found, expected, equal_nan=True)
