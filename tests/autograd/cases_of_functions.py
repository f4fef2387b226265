"""Cases: derivatives that users wrote (torch.autograd.Function), one graph with the calls around them where that is
sound, and a break with the reason where it is not."""

from __future__ import annotations

import math

import torch

from tests.autograd.cases import Cases, Mlp, flags, gradients, leaf

case = Cases()


class TimesFive(torch.autograd.Function):
    """A derivative that is none."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 5 * ctx.saved_tensors[0]


def trained(wrap, function, *tensors):
    """What is seen of one step through a function."""
    y = wrap(function)(*tensors)
    y.square().sum().backward()
    return {"y": y, **gradients(**{f"x{place}": tensor for place, tensor in enumerate(tensors)})}


@case()
def between_other_calls(wrap):
    return trained(wrap, lambda x, w: TimesFive.apply(x @ w).relu(), leaf(4, 8), leaf(8, 8, seed=2))


@case()
def alone(wrap):
    return trained(wrap, lambda x: TimesFive.apply(x), leaf(4, 8))


@case()
def several_times(wrap):
    return trained(wrap, lambda x: TimesFive.apply(TimesFive.apply(x) + x) + TimesFive.apply(x), leaf(4, 8))


def gelu_back(gradient, x):
    x = x[0]
    t = torch.tanh(math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x * x))
    return gradient * (0.5 * x * ((1 - t * t) * (0.79788456 + 0.1070322243 * x * x)) + 0.5 * (1 + t))


class Gelu(torch.autograd.Function):
    """As Bloom has it: saved tensors are passed on as a tuple, to a function."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))

    @staticmethod
    def backward(ctx, gradient):
        return gelu_back(gradient, ctx.saved_tensors)


@case()
def in_a_model(wrap):
    model, x = Mlp(), leaf(4, 8)
    y = wrap(lambda x: model.b(Gelu.apply(model.a(x))))(x)
    y.sum().backward()
    return {"y": y, **gradients(model, x=x)}


class Exp(torch.autograd.Function):
    """Keeps its result; forward sees no context."""

    @staticmethod
    def forward(x, scale):
        return (x * scale).exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.scale = inputs[1]

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return gradient * y * ctx.scale, None


@case()
def with_a_context_of_its_own(wrap):
    return trained(wrap, lambda x: Exp.apply(x, 0.5) + 1, leaf(4, 8))


@case(breaks="a tensor is written to that the backward of Exp reads")
def whose_kept_result_is_written_to(wrap):
    """Eager raises in the backward pass, since what it keeps is another by then."""

    def f(x):
        y = Exp.apply(x, 0.5)
        y.mul_(2)
        return y

    x = leaf(4, 8)
    y = wrap(f)(x)
    try:
        y.sum().backward()
    except RuntimeError:
        return {"y": y, "raised": flags(True)}
    return {"y": y, "raised": flags(False)}


class Product(torch.autograd.Function):
    """Asks which gradients are wanted, and gives no others."""

    @staticmethod
    def forward(ctx, x, n, w):
        ctx.save_for_backward(x, w)
        ctx.n = n
        return n * x @ w

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        d_x = ctx.n * gradient @ w.t() if ctx.needs_input_grad[0] else None
        d_w = ctx.n * x.t() @ gradient if ctx.needs_input_grad[2] else None
        assert not ctx.needs_input_grad[1]
        return d_x, None, d_w


@case()
def of_several_arguments(wrap):
    return trained(wrap, lambda x, w: Product.apply(x, 3, w), leaf(4, 8), leaf(8, 8, seed=2))


@case()
def of_which_one_needs_none(wrap):
    return trained(wrap, lambda x, w: Product.apply(x, 3, w), leaf(4, 8, grad=False), leaf(8, 8, seed=2))


class Halves(torch.autograd.Function):
    """Two results with gradients, and one without."""

    @staticmethod
    def forward(ctx, x):
        low, high = x.chunk(2, -1)
        largest = (low + high).argmax(-1)
        rounded = low.round()
        ctx.mark_non_differentiable(largest, rounded)
        return low * 2, high * 3, largest, rounded

    @staticmethod
    def backward(ctx, d_low, d_high, d_largest, d_rounded):
        return torch.cat([d_low * 20, d_high * 30 + d_rounded], -1)


@case()
def of_several_results(wrap):
    def f(x):
        low, high, largest, rounded = Halves.apply(x * 1.5)
        return low * high + largest[:, None] + rounded, rounded

    x = leaf(4, 8)
    y, rounded = wrap(f)(x)
    y.sum().backward()
    return {"y": y, "flags": flags(rounded.requires_grad, y.requires_grad), **gradients(x=x)}


@case()
def of_which_one_result_is_used(wrap):
    return trained(wrap, lambda x: Halves.apply(x * 1.5)[1] * 2, leaf(4, 8))


class Reverse(torch.autograd.Function):
    """Its result is a view of its argument."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.neg() * ctx.scale, None


@case()
def that_reverses_gradients(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        h = model.a(x).relu()
        return model.b(h).sum() + Reverse.apply(h, 0.1).square().sum()

    y = wrap(f)(x)
    y.backward()
    return {"y": y, **gradients(model, x=x)}


@case(breaks="Reverse returns a view of its argument, which is a result")
def whose_view_is_a_result(wrap):
    x = leaf(4, 8)
    h = x * 1
    y = wrap(lambda h: Reverse.apply(h, 0.1))(h)
    (y * 3).sum().backward()
    with torch.no_grad():
        h.add_(1)
    return {"y": y, **gradients(x=x)}


@case(breaks="a tensor is written to that the backward of Reverse reads, or that is a view of its argument")
def whose_argument_is_written_to_later(wrap):
    """Eager refuses what is done with the result from then on."""

    def f(x):
        h = x * 2
        y = Reverse.apply(h, 0.1)
        h.mul_(2)
        try:
            return y * 1
        except RuntimeError:
            return h

    return trained(wrap, f, leaf(4, 8))


class Kept(torch.autograd.Function):
    """Keeps a tensor where autograd does not see it."""

    @staticmethod
    def forward(ctx, x, mask):
        ctx.mask = mask
        return x * mask

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.mask, None


@case(breaks="a tensor is written to that the backward of Kept reads")
def what_backward_reads_is_written_to_later(wrap):
    def f(x):
        mask = (x.detach() > 0).float()
        y = Kept.apply(x * 2, mask)
        z = y + 1
        mask.fill_(0.5)
        return z

    return trained(wrap, f, leaf(4, 8))


@case()
def that_keeps_what_is_made_for_it(wrap):
    return trained(wrap, lambda x: Kept.apply(x * 2, (x.detach() > 0).float()) + 1, leaf(4, 8))


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.sizes = [x.shape[0], x.shape[1] // 2]
        return x.sign()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        made = torch.zeros_like(x)
        made[:, : ctx.sizes[1]] = 1
        made.mul_(gradient)
        return made


@case()
def that_is_differentiable_once(wrap):
    return trained(wrap, lambda x: Once.apply(x * 2) + 1, leaf(4, 8))


@case()
def in_a_module_that_is_checkpointed(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        return torch.utils.checkpoint.checkpoint(lambda h: Gelu.apply(model.a(h)), x, use_reentrant=False)

    y = wrap(f)(x)
    y.sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case()
def where_no_gradients_are_recorded(wrap):
    x = leaf(4, 8)

    def f(x):
        with torch.no_grad():
            scale = TimesFive.apply(x)
        return x * scale

    return trained(wrap, f, x)


class Mixed(torch.autograd.Function):
    """A gradient of another type, which autograd casts."""

    @staticmethod
    def forward(ctx, x):
        return x.double().exp()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 0.25


@case()
def whose_gradient_is_cast(wrap):
    return trained(wrap, lambda x: Mixed.apply(x * 2), leaf(4, 8))
