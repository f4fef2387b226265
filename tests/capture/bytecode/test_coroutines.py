"""Coroutines are CPython's; what they call is captured where a compiled call reaches it."""

import asyncio

import torch

from tests.capture.bytecode import running

X = torch.linspace(-2, 2, 6)


async def doubled(x):
    await asyncio.sleep(0)
    return x * 2


async def doubled_then_more(x):
    return await doubled(x) + 1


def runs_a_loop(x):
    return asyncio.run(doubled_then_more(x * 3)) - 1


def test_a_coroutine_function(hook):
    captured = running.Captured(doubled_then_more)
    for _ in range(2):
        assert torch.equal(asyncio.run(captured(X)), X * 2 + 1)


def test_a_coroutine_inside_is_a_break(hook):
    captured = running.check(runs_a_loop, (X,), (X + 1,))
    assert any("coroutine" in event.text for event in captured.events if event.kind.value == "break")


def test_an_async_generator(hook):
    async def parts(x):
        for k in range(3):
            yield x * k

    async def summed(x):
        return sum([part async for part in parts(x)])

    def run(x):
        return asyncio.run(summed(x + 1)) * 2

    running.check(run, (X,))
