"""An ``except`` block for what eager raises of values out of range, which no kernel raises: it runs."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from longhand.errors import EagerWarning

X = torch.arange(15.0).reshape(5, 3) / 15
INSIDE, OUTSIDE = torch.tensor([1, 4]), torch.tensor([1, 7])


def an_index(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    try:
        y = y[i] * 2
    except IndexError:
        y = y.sum()
    return y + 1


def one_of_several(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    try:
        y = torch.index_select(x, 0, i)
    except ValueError:
        y = x
    except (KeyError, LookupError) as error:
        y = x * len(str(type(error)))
    return y + 1


def any_at_all(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    try:
        return F.embedding(i, x) + 1
    except:  # noqa: E722
        return x.sum()


def suppressed(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    y = x.cos()
    with contextlib.suppress(IndexError):
        y = y.take(i * 3)
    return y + 1


def gathered(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    try:
        return x.gather(0, i[:, None]) * 2
    except RuntimeError:
        return x.sum()


def classes(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    try:
        return F.cross_entropy(x[:2], i - 2)
    except IndexError:
        return x.sum()


def _lookup(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x[i].sin()


def of_a_caller(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    try:
        return _lookup(x * 2, i)
    except Exception:
        return x.sum()


def raised_for_another(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    """What the first block raises, the second one takes."""
    try:
        try:
            return x[i] * 2
        except IndexError as error:
            raise ValueError("no such row") from error
    except ValueError:
        return x.sum()


def _checked(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    try:
        return x[i].sin()
    except IndexError as error:
        raise KeyError("no such row") from error


def raised_for_a_caller(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    with contextlib.suppress(KeyError):
        return _checked(x * 2, i)
    return x.sum()


def raised_perhaps(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    try:
        return x[i].sin()
    except IndexError:
        if len(x) > 100:
            raise
        return x.sum()


CASES = [an_index, one_of_several, any_at_all, suppressed, gathered, classes, of_a_caller]
CASES += [raised_for_another, raised_for_a_caller, raised_perhaps]


def in_other_words(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    """As LiLT's layout embeddings."""
    try:
        y = F.embedding(i, x) + F.embedding(i - 1, x)
    except IndexError as error:
        raise IndexError(f"positions should be within 0-{len(x)} range.") from error
    return y + 1


def raised_again(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    try:
        return _checked(x, i) + 1
    except KeyError:
        raise


@pytest.mark.parametrize("function", [in_other_words, raised_again])
def test_a_block_that_only_raises_breaks_nothing(function: Callable[..., torch.Tensor]) -> None:
    compiled = longhand.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error", EagerWarning)
        for i in (INSIDE, torch.tensor([2, 3]), INSIDE):
            torch.testing.assert_close(compiled(X, i), function(X, i))
    assert not longhand.explain(function)(X, INSIDE).breaks


@pytest.mark.parametrize("function", CASES)
def test_the_block_runs(function: Callable[..., torch.Tensor]) -> None:
    compiled = longhand.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EagerWarning)
        for i in (INSIDE, OUTSIDE, INSIDE):
            torch.testing.assert_close(compiled(X, i), function(X, i))
    assert any("which no kernel raises" in one.reason for one in longhand.explain(function)(X, INSIDE).breaks)


def known_positions(x: torch.Tensor) -> torch.Tensor:
    try:
        return x[torch.tensor([0, 2])] * 2
    except IndexError:
        return x


def a_mask(x: torch.Tensor) -> torch.Tensor:
    try:
        return torch.where(x > 0.5, x[1:2, 0], x) * 2
    except IndexError:
        return x


def for_something_else(x: torch.Tensor) -> torch.Tensor:
    """As who waits for a GPU that has no memory left."""
    try:
        return F.embedding((x[:, 0] * 4).long(), x)
    except (RuntimeError, torch.OutOfMemoryError) as error:
        if "memory" not in str(error):
            raise
        return x


def ends_in_it_again(x: torch.Tensor) -> torch.Tensor:
    try:
        return x[(x[:, 0] * 4).long()] * 2
    finally:
        x = x + 1


LOG: list[int] = []  # what a ``finally`` block writes into


def calls_at_the_end(x: torch.Tensor) -> torch.Tensor:
    try:
        return _lookup(x, (x[:, 0] * 4).long()) * 2
    finally:
        LOG.clear()


def of_another_type(x: torch.Tensor) -> torch.Tensor:
    try:
        return _lookup(x, (x[:, 0] * 4).long()) * 2
    except TypeError as error:
        raise TypeError(str(error)) from error
    finally:
        LOG.clear()


class Switched(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return x[(x[:, 0] * 4).long()] * 2


@pytest.mark.parametrize(
    "run",
    [
        known_positions,
        a_mask,
        for_something_else,
        ends_in_it_again,
        calls_at_the_end,
        of_another_type,
        Switched(),
    ],
)
def test_what_no_block_takes_is_one_graph(run: Callable[[torch.Tensor], torch.Tensor]) -> None:
    found = longhand.explain(run)(X)
    assert len(found.graphs) == 1 and not found.breaks
    torch.testing.assert_close(longhand.compile(run)(X), run(X))
