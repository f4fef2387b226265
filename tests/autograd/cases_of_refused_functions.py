"""Cases: derivatives that users wrote which are no one graph with the calls around them: a break, with its reason."""

from __future__ import annotations

import torch

from tests.autograd.cases import gradients, leaf
from tests.autograd.cases_of_functions import Halves, TimesFive, case, trained

SCALE = 3.0


class ReadsGlobal(TimesFive):
    @staticmethod
    def backward(ctx, grad):
        return grad * SCALE


@case(breaks="the backward of ReadsGlobal reads G['SCALE'], which may be another by then")
def that_reads_a_global(wrap):
    global SCALE
    before = SCALE
    x = leaf(4, 8)
    y = wrap(lambda x: ReadsGlobal.apply(x * 2) + 1)(x)
    try:
        SCALE = 7.0
        y.sum().backward()
    finally:
        SCALE = before
    return {"y": y, **gradients(x=x)}


OFFSET = 0.5
LIMITS: tuple[float, float] = (1.0, 2.0)


class ReadsConstant(TimesFive):
    @staticmethod
    def backward(ctx, grad):
        return grad * OFFSET


@case()
def that_reads_a_global_that_nothing_sets(wrap):
    return trained(wrap, lambda x: ReadsConstant.apply(x * 2) + 1, leaf(4, 8))


class ReadsTuple(TimesFive):
    @staticmethod
    def backward(ctx, grad):
        return grad * LIMITS[1]


@case(breaks="the backward of ReadsTuple reads G['LIMITS'], which may be another by then")
def that_reads_a_global_with_parts(wrap):
    return trained(wrap, lambda x: ReadsTuple.apply(x * 2) + 1, leaf(4, 8))


class KeepsList(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scales):
        ctx.scales = scales
        return x * scales[0]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.scales[0], None


@case(breaks="KeepsList keeps an object on ctx that others may change")
def that_keeps_a_list_of_others(wrap):
    x, scales = leaf(4, 8), [2.0]
    y = wrap(lambda x, scales: KeepsList.apply(x * 2, scales) + 1)(x, scales)
    scales[0] = 5.0
    y.sum().backward()
    return {"y": y, **gradients(x=x)}


class Noisy(TimesFive):
    @staticmethod
    def backward(ctx, grad):
        return grad * torch.rand_like(grad)


@case(breaks="the backward of Noisy may draw random numbers")
def that_draws_numbers(wrap):
    x = leaf(4, 8)
    y = wrap(lambda x: Noisy.apply(x * 2) + torch.rand(4, 8))(x)
    torch.manual_seed(3)
    y.sum().backward()
    return gradients(x=x)


class WritesGradient(TimesFive):
    @staticmethod
    def backward(ctx, grad):
        return grad.mul_(2)


@case(breaks="the backward of WritesGradient writes into what was there before")
def that_writes_into_a_gradient(wrap):
    return trained(wrap, lambda x: WritesGradient.apply(x * 2) + 1, leaf(4, 8))


SEEN = []


class Tells(TimesFive):
    @staticmethod
    def backward(ctx, grad):
        SEEN.append(1)
        return grad


@case(breaks="the backward of Tells reads G['SEEN']")
def that_has_effects(wrap):
    SEEN.clear()
    seen = trained(wrap, lambda x: Tells.apply(x * 2) + 1, leaf(4, 8))
    return {**seen, "n": torch.tensor(len(SEEN))}


class Row(TimesFive):
    @staticmethod
    def backward(ctx, grad):
        return grad[:1]


@case(breaks="a gradient of another shape, or none")
def whose_gradient_has_another_shape(wrap):
    x = leaf(4, 8)
    y = wrap(lambda x: Row.apply(x * 2) + 1)(x)
    try:
        y.sum().backward()
    except RuntimeError:
        return {"y": y}
    return {"y": y, **gradients(x=x)}


class Constant(torch.autograd.Function):
    """Gives gradients, whatever it is given."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return torch.ones_like(grad)


class Nothing(TimesFive):
    @staticmethod
    def backward(ctx, grad):
        return None


@case()
def behind_one_without_gradient(wrap):
    """Autograd calls what is behind it with zeros, and hands on through its own ops that there is none."""

    def function(x, y, w):
        return Nothing.apply(Constant.apply(x)) + Nothing.apply(Constant.apply(y * 0).sqrt()) + w

    return trained(wrap, function, leaf(4, 8), leaf(4, 8, seed=1), leaf(4, 8, seed=2))


@case()
def without_one_of_its_gradients(wrap):
    """What it gives none to has one from elsewhere."""

    def function(x):
        y = x * 2
        return Nothing.apply(y) + y.sin()

    return trained(wrap, function, leaf(4, 8))


class TakesNone(TimesFive):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 5

    @staticmethod
    def backward(ctx, grad):
        return grad if grad is None else grad * 5


@case(breaks="a gradient of another shape, or none")
def without_gradient_for_one_that_takes_none(wrap):
    return trained(wrap, lambda x: Nothing.apply(TakesNone.apply(x).sin()) + x, leaf(4, 8))


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@case(breaks="the forward of Dirty writes into what it is given")
def that_writes_into_its_argument(wrap):
    return trained(wrap, lambda x: Dirty.apply(x * 2) + 1, leaf(4, 8))


class Unmaterialized(Halves):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        low, high = x.chunk(2, -1)
        return low * 2, high * 3

    @staticmethod
    def backward(ctx, d_low, d_high):
        d_low = torch.zeros_like(d_high) if d_low is None else d_low
        return torch.cat([d_low * 20, d_high * 30], -1)


@case(breaks="Unmaterialized takes None for gradients of several results")
def that_takes_none(wrap):
    return trained(wrap, lambda x: Unmaterialized.apply(x * 1.5)[1] * 2, leaf(4, 8))
