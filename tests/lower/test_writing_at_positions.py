"""Slices written at positions that are data, into tensors that the call changes: a step of a key-value cache."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from longhand.capture.frontends.export import capture_export
from longhand.lower.interpreter import results_of, run_program
from longhand.lower.ir import Extern, Nest, Program, Store
from longhand.lower.lowering import lower
from longhand.lower.rules.adding import adding_problem
from longhand.options import Device, Options, Target

Step = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

ON_CUDA = Options(Target(Device.CUDA, "sm_90"))
ON_CPU = Options(Target(Device.CPU))


def put(cache: torch.Tensor, at: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    cache[:, :, at] = new.exp()
    return cache * 2


def put_in_front(cache: torch.Tensor, at: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    cache.transpose(0, 2)[at] = new.transpose(0, 2)
    return cache * 2


def index_copy(cache: torch.Tensor, at: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    cache.index_copy_(-2, at, new)
    return cache * 2


def scatter(cache: torch.Tensor, at: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    cache.scatter_(2, at.long().view(1, 1, -1, 1).expand_as(new), new)
    return cache * 2


def rows(cache: torch.Tensor, at: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    cache[torch.arange(2, device=cache.device), :, at] = new[:, :, 0]
    return cache * 2


def from_itself(cache: torch.Tensor, at: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    cache[:, :, at] = cache[:, :, :1] + new
    return cache * 2


def twice(cache: torch.Tensor, at: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    cache[:, :, at] = new
    cache[:, :, at - 1] = new + 1
    return cache * 2


STEPS: dict[str, Step] = {
    one.__name__: one for one in (put, put_in_front, index_copy, scatter, rows, from_itself, twice)
}


def lowered(step: Step, *args: torch.Tensor, options: Options = ON_CUDA) -> Program:
    return lower(capture_export(step, args, target=options.target), options)


def ran(program: Program, *args: torch.Tensor) -> torch.Tensor:
    inputs = dict(zip((entry.node for entry in program.graph.inputs), args, strict=False))
    with torch.no_grad():
        buffers = run_program(program, inputs)
    (result,) = results_of(program, buffers, inputs)
    assert isinstance(result, torch.Tensor)
    return result


def writes(program: Program) -> list[Store]:
    bodies = [step.body for step in program.steps if isinstance(step, Nest)]
    return [value for body in bodies for value in body if isinstance(value, Store) and value.is_at_positions]


def given(dtype: torch.dtype = torch.float32, positions: object = (3,)) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return torch.randn(2, 3, 5, 4).to(dtype), torch.tensor(positions), torch.randn(2, 3, 1, 4).to(dtype)


@pytest.mark.parametrize("name", STEPS)
def test_a_slice_is_written_by_a_nest_where_it_lies(name: str) -> None:
    step = STEPS[name]
    cache, at, new = given(positions=(3, 1) if name == "rows" else (3,))
    program = lowered(step, cache, at, new)
    assert not any(isinstance(one, Extern) for one in program.steps)
    assert len(writes(program)) == (2 if name == "twice" else 1)
    mine, theirs = cache.clone(), cache.clone()
    torch.testing.assert_close(ran(program, mine, at, new), step(theirs, at, new))
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("name", STEPS)
def test_on_the_cpu_it_is_atens_where_it_lies_and_a_position_out_of_range_is_an_error(name: str) -> None:
    step = STEPS[name]
    cache, at, new = given(positions=(3, 1) if name == "rows" else (3,))
    program = lowered(step, cache, at, new, options=ON_CPU)
    assert not writes(program)
    mine, theirs = cache.clone(), cache.clone()
    torch.testing.assert_close(ran(program, mine, at, new), step(theirs, at, new))
    torch.testing.assert_close(mine, theirs)
    mine = cache.clone()
    with pytest.raises((IndexError, RuntimeError)):
        ran(program, mine, at + 5, new)
    torch.testing.assert_close(mine, cache)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", ["put", "index_copy"])
def test_of_any_float_and_at_positions_of_32_bits(name: str, dtype: torch.dtype) -> None:
    cache, _, new = given(dtype)
    at = torch.tensor([2], dtype=torch.int32)
    if name == "index_copy":
        at = at.long()  # which takes no others
    program = lowered(STEPS[name], cache, at, new)
    assert len(writes(program)) == 1
    mine, theirs = cache.clone(), cache.clone()
    torch.testing.assert_close(
        ran(program, mine, at, new), STEPS[name](theirs, at, new), rtol=1e-2, atol=1e-2
    )
    torch.testing.assert_close(mine, theirs, rtol=1e-2, atol=1e-2)


def test_a_cache_that_is_not_contiguous() -> None:
    cache, at, new = given()
    laid_out = cache.transpose(1, 2).contiguous().transpose(1, 2)
    program = lowered(put, laid_out, at, new)
    assert len(writes(program)) == 1
    expected = put(cache, at, new)
    torch.testing.assert_close(ran(program, laid_out, at, new), expected)
    torch.testing.assert_close(laid_out, cache)


def test_negative_positions_count_from_the_end_in_index_put_alone() -> None:
    cache, at, new = given(positions=(-2,))
    mine, theirs = cache.clone(), cache.clone()
    torch.testing.assert_close(ran(lowered(put, cache, at, new), mine, at, new), put(theirs, at, new))
    torch.testing.assert_close(mine, theirs)
    copied = cache.clone()
    ran(lowered(index_copy, cache, at, new), copied, at, new)
    assert copied[:, :, 0].isnan().all()  # of which eager makes an error


@pytest.mark.parametrize("position", [5, -6, 2**40, -(2**63)])
@pytest.mark.parametrize("name", ["put", "index_copy", "scatter"])
def test_a_position_out_of_range_shows_and_nothing_else_is_written(name: str, position: int) -> None:
    cache, at, new = given(positions=(position,))
    mine = cache.clone()
    ran(lowered(STEPS[name], cache, at, new), mine, at, new)
    assert mine[:, :, 0].isnan().all()
    torch.testing.assert_close(mine[:, :, 1:], cache[:, :, 1:])


def test_of_rows_only_the_one_out_of_range_shows() -> None:
    cache, at, new = given(positions=(5, 1))
    mine = cache.clone()
    ran(lowered(rows, cache, at, new), mine, at, new)
    assert mine[0, :, 0].isnan().all()
    torch.testing.assert_close(mine[1, :, 1], new[1, :, 0])
    torch.testing.assert_close(mine[1, :, 0], cache[1, :, 0])


def several(cache: torch.Tensor, at: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    cache[:, :, at] = new.expand(2, 3, 2, 4)
    return cache * 2


@pytest.mark.parametrize(
    ("step", "dtype", "positions"),
    [
        (several, torch.float32, (1, 1)),  # the last one wins
        (several, torch.int64, (1, 2)),
        (index_copy, torch.int32, (1,)),  # which has no NaN
    ],
)
def test_what_could_be_written_twice_or_cannot_show_is_atens(
    step: Step, dtype: torch.dtype, positions: tuple[int, ...]
) -> None:
    cache, at, new = given(positions=positions)
    cache, new = (cache * 9).to(dtype), (new * 9).to(dtype)
    program = lowered(step, cache, at, new)
    assert not writes(program)
    mine, theirs = cache.clone(), cache.clone()
    torch.testing.assert_close(ran(program, mine, at, new), step(theirs, at, new))
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("options", [ON_CUDA, ON_CPU], ids=["cuda", "cpu"])
def test_whole_numbers_at_positions_that_are_certain(options: Options) -> None:
    def step(cache: torch.Tensor, at: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        cache[:, :, at.clamp(0, 4)] = new
        return cache * 2

    cache, at, new = given(positions=(7,))
    cache, new = cache.long(), new.long()
    program = lowered(step, cache, at, new, options=options)
    assert len(writes(program)) == 1
    mine, theirs = cache.clone(), cache.clone()
    torch.testing.assert_close(ran(program, mine, at, new), step(theirs, at, new))
    torch.testing.assert_close(mine, theirs)


def test_nothing_is_written_into_nothing() -> None:
    at, new = torch.tensor([], dtype=torch.int64), torch.randn(2, 3, 0, 4)
    cache = torch.randn(2, 3, 5, 4)
    program = lowered(put, cache, at, new, options=ON_CPU)
    mine = cache.clone()
    ran(program, mine, at, new)
    torch.testing.assert_close(mine, cache)


def test_the_rule_refuses_what_could_be_written_twice() -> None:
    cache, at, new = given()
    (nest,) = [
        step
        for step in lowered(put, cache, at, new).steps
        if isinstance(step, Nest) and any(isinstance(v, Store) and v.is_at_positions for v in step.body)
    ]
    assert adding_problem(nest) is None
    (store,) = [value for value in nest.body if isinstance(value, Store)]
    index = dataclasses.replace(store.index, axes=store.index.axes[1:])
    broken = dataclasses.replace(store, index=index)
    body = tuple(broken if value is store else value for value in nest.body)
    assert "twice" in (adding_problem(Nest(nest.axes, body)) or "")


def of_a_library(cache: torch.Tensor, at: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    cache[at[:1]] = cache.cumsum(1)[-1:]
    return new * 2


@pytest.mark.parametrize("options", [ON_CPU, ON_CUDA])
def test_a_part_of_what_a_library_lays_out_is_read_from_a_copy_of_all(options: Options) -> None:
    cache, at, new = given(torch.float16, positions=(1,))
    program = lowered(of_a_library, cache, at, new, options=options)
    mine, theirs = cache.clone(), cache.clone()
    torch.testing.assert_close(ran(program, mine, at, new), of_a_library(theirs, at, new))
    torch.testing.assert_close(mine, theirs)
