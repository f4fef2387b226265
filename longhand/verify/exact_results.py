"""What a call gives without the rounding of its own types: what eager's results, and a unit's, are held against."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

import torch

from longhand.factory import Call
from longhand.verify.original import in_float64, in_other_bits

__all__ = ["exact_results"]

Results = Mapping[str, torch.Tensor]


def exact_results(call: Call, run: Callable[[Call], Results], eager: Results) -> Results:
    """The results in float64; where the model does not run there, eager's on other last bits.

    Some operations have no float64 (a grouped matrix product), some models refuse it. How far eager moves when its
    weights and arguments change in the last bit is then how exact it is: the same distance that float64 would show.

    Args:
        call: The original and its arguments, which stay as they are.
        run: What is compared: the tensors of a call, by name.
        eager: What `run` gives for the call itself.

    Returns:
        Tensors of the same names and shapes; `eager` where both runs make other ones.
    """
    for variant in (in_float64, in_other_bits):
        with contextlib.suppress(Exception):  # eager ran: what fails here is the other type, or other data
            exact = run(variant(call))
            if _shapes(exact) == _shapes(eager):
                return exact
    return eager


def _shapes(results: Results) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in results.items()}
