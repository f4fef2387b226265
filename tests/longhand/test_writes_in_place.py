"""Writes into a part of an input go to where it lies, if nothing reads the old content; the result is eager's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import longhand

Function = Callable[..., torch.Tensor]
POSITIONS = torch.tensor([4, 1, -1])


def rows(cache, x, at):
    cache[2:4] = x[2:4] * 2
    return cache.sum(1)


def columns(cache, x, at):
    cache[:, 3:5] = x[:, :2]
    return cache @ x.T


def with_steps(cache, x, at):
    cache[1::2, ::3] = x[1::2, ::3] + 1
    return cache.sum()


def view_of_a_view(cache, x, at):
    cache[1, 2:5] = x[0, 2:5]
    cache.T[6] = x[:, 1]
    return cache.exp()


def of_its_own_content(cache, x, at):
    cache[1:3] = cache[3:5] * 2
    cache[0, 1:] = cache[0, :-1] + 1
    return cache.sum(0)


def twice_with_a_read_between(cache, x, at):
    cache[2:4] = x[2:4]
    between = cache.sum(1)
    cache[3:5] = x[3:5] - between[:2, None]
    return between + cache.sum(1)


def old_content_is_returned(cache, x, at):
    old = cache.clone()
    cache[2:4] = x[2:4]
    return old


def old_content_goes_into_another(cache, x, at):
    old = cache[1:3] + 0
    cache[1:3] = x[1:3]
    x[4:6] = old
    return cache + x


def computed_once_more_elsewhere(cache, x, at):
    doubled = cache * 2
    cache[2:4] = x[2:4]
    return torch.cat([doubled, cache], 1)


def positions(cache, x, at):
    cache[at] = x[:3] + 1
    cache.index_add_(0, at.abs(), x[3:])
    return cache.sum(1)


def positions_of_columns(cache, x, at):
    cache[:, at] = x[:, :3]
    cache.index_copy_(1, at.abs() + 1, x[:, 3:6])
    return cache.softmax(-1)


def positions_from_its_own_content(cache, x, at):
    cache[at] = cache[:3].clone()
    return cache.sum(1)


def scattered(cache, x, at):
    cache.scatter_(1, at[None, :].abs().expand(6, 3), x[:, :3])
    cache.scatter_add_(0, at[:, None].abs().expand(3, 8), x[:3])
    cache[x > 0.5] = 0.25
    return cache.amax(0)


WRITES = [
    rows,
    columns,
    with_steps,
    view_of_a_view,
    of_its_own_content,
    twice_with_a_read_between,
    old_content_is_returned,
    old_content_goes_into_another,
    computed_once_more_elsewhere,
    positions,
    positions_of_columns,
    positions_from_its_own_content,
    scattered,
]


def arguments() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(6, 8, generator=generator), torch.randn(6, 8, generator=generator), POSITIONS.clone()


def text_of(folder: Path) -> str:
    return "\n".join(path.read_text() for path in [folder / "model.py", *folder.glob("kernels/*.cpp")])


@pytest.mark.parametrize("function", WRITES)
@pytest.mark.parametrize("is_a_view", [False, True])
def test_content_and_result_are_eagers(function: Function, is_a_view: bool) -> None:
    def given() -> tuple[torch.Tensor, ...]:
        cache, x, at = arguments()
        return (torch.cat([cache, cache], 1)[:, ::2] if is_a_view else cache), x, at

    ours, eager = given(), given()
    with torch.no_grad():
        result = longhand.compile(function)(*ours)
        expected = function(*eager)
    torch.testing.assert_close(result, expected)
    for mine, theirs in zip(ours, eager, strict=True):
        torch.testing.assert_close(mine, theirs)


class Cache(torch.nn.Module):
    """A static key-value cache."""

    def __init__(self, write: Callable[..., None]) -> None:
        super().__init__()
        self.write = write
        self.register_buffer("keys", torch.zeros(2, 3, 16, 4))

    def forward(self, k: torch.Tensor, q: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.write(self.keys, k * 2, position)
        return q @ self.keys.transpose(-1, -2)


def put(cache: torch.Tensor, k: torch.Tensor, position: torch.Tensor) -> None:
    cache[:, :, position] = k


def copy(cache: torch.Tensor, k: torch.Tensor, position: torch.Tensor) -> None:
    cache.index_copy_(2, position, k)


def assign(cache: torch.Tensor, k: torch.Tensor, position: torch.Tensor) -> None:
    cache[:, :, 4:6] = k


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("write", [put, copy, assign])
def test_a_static_cache_costs_what_is_written_into_it(write, device, tmp_path) -> None:
    args = torch.randn(2, 3, 2, 4), torch.randn(2, 3, 1, 4), torch.tensor([4, 5])
    arch = "sm_90" if device == "cuda" else None
    summary = longhand.generate(Cache(write), args, out=tmp_path / "unit", device=device, arch=arch)
    assert summary is not None
    text = (tmp_path / "unit" / "model.py").read_text()
    # Nothing of the cache's size is made: at most the two new keys.
    assert "16, 4)" not in text.split("def forward")[1]
    written = {put: "self.keys[:, :, position] = ", copy: "self.keys.index_copy_(2, position, "}
    assert written.get(write, "") in text


def test_inputs_that_share_memory_stay_as_in_eager() -> None:
    def shifted(cache, seen):
        cache[1:3] = 5.0
        return seen * 2

    def given() -> tuple[torch.Tensor, torch.Tensor]:
        cache = torch.arange(48.0).view(6, 8)
        return cache, cache[1:4]

    ours, eager = given(), given()
    with torch.no_grad():
        result, expected = longhand.compile(shifted)(*ours), shifted(*eager)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(ours[0], eager[0])


def test_a_position_out_of_range_raises_as_in_eager() -> None:
    def write(cache, x, at):
        cache[at] = x[:3]

    with torch.no_grad(), pytest.raises(IndexError):
        longhand.compile(write)(torch.zeros(2, 8), torch.ones(6, 8), torch.tensor([0, 1, 2]))
