"""Stage times, and the sampled shares of libraries."""

import time

import sympy

from longhand.telling.clock import Clock


def test_stages_are_kept_in_order_and_summed():
    clock = Clock()
    for stage in ("capture", "lower", "capture"):
        with clock.stage(stage):
            time.sleep(0.01)
    timings = clock.timings()
    assert [stage for stage, _ in timings.stages] == ["capture", "lower"]
    assert dict(timings.stages)["capture"] > dict(timings.stages)["lower"] >= 0.01
    assert timings.total == sum(seconds for _, seconds in timings.stages)


def test_a_stage_that_raises_is_counted_too():
    clock = Clock()
    try:
        with clock.stage("emit"):
            raise ValueError
    except ValueError:
        pass
    assert dict(clock.timings().stages)["emit"] >= 0.0


def test_time_inside_sympy_is_attributed_to_it():
    clock = Clock(sample=True)
    x = sympy.Symbol("x")
    with clock.stage("lower"):
        end = time.perf_counter() + 0.4
        while time.perf_counter() < end:
            sympy.expand((x + 1) ** 40)
    shares = dict(clock.timings().shares)
    assert shares["sympy"] > 0.2
    assert shares["black"] == 0.0
