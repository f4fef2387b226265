"""Cases: inputs that are written into with gradients."""

from __future__ import annotations

import torch

from tests.autograd.cases import Cases, gradients, leaf

case = Cases()


@case()
def what_is_written_is_returned_and_read(wrap):
    start, w = leaf(4, 8), leaf(8, seed=4)
    x = start * 2

    def f(x, w):
        before = x * 3
        x[:, 2:5] = w[2:5]
        y = x.mul_(w)
        return before, x, y[1:], x.view(-1)[::2]

    before, same, part, flat = wrap(f)(x, w)
    assert same is x
    part.mul_(3)
    (before.sum() + x.square().sum() + flat.sum() + part.sin().sum()).backward()
    return {"before": before, "part": part, "flat": flat, **gradients(start=start, w=w)}


@case()
def a_cache_is_written_with_gradients(wrap):
    w, cache, x = leaf(8, 8), torch.zeros(6, 8), leaf(2, 8, seed=5)

    def f(cache, x, w):
        cache[2:4] = x @ w
        return cache.cos()

    step = wrap(f)
    y = step(cache, x, w)
    (y.sum() + cache.square().sum()).backward()
    return {"y": y, "cache": cache, **gradients(w=w, x=x)}


@case(refused="share memory")
def inputs_that_overlap_are_written_with_gradients(wrap):
    start = leaf(6, 8)
    whole = start * 2
    x, other = whole[:4], whole[2:]

    def f(x, other):
        x.mul_(other.mean())
        return other.sin()

    y = wrap(f)(x, other)
    (y.sum() + whole.square().sum()).backward()
    return {"y": y, **gradients(start=start)}


@case(refused="does not see it")
def an_input_with_a_history_is_written_without_gradients(wrap):
    start, w = leaf(4, 8), leaf(8, seed=4)
    x = start * 2

    def f(x, w):
        with torch.no_grad():
            x[0] = 1
        x.mul_(w)
        return x.sin()

    y = wrap(f)(x, w)
    y.sum().backward()
    return {"y": y, **gradients(w=w, start=start)}
