"""Cases: what surrounds a model in training: optimizers, accumulation, autocast, checkpoints, modes, randomness."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.autograd.cases import HOOKS, Cases, Mlp, flags, gradients, leaf

case = Cases()


class Wide(nn.Module):
    """Sums of many numbers, so that their rounding is no luck."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(64, 256)
        self.b = nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(F.gelu(self.a(x)))


def mixed_or_exact(model: nn.Module, x: torch.Tensor, in_float64: bool):
    """The model and its input, and the autocast that they run under; in float64 there is none."""
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=not in_float64)
    if not in_float64:
        return model, x, autocast
    return model.double(), x.detach().double().requires_grad_(), autocast


@case(tolerance=None)
def autocast_around(wrap, in_float64=False):
    model, x, autocast = mixed_or_exact(Wide(), leaf(128, 64), in_float64)
    compiled = wrap(model)
    with autocast:
        y = compiled(x)
    (y.to(x.dtype) * leaf(128, 64, grad=False, seed=2)).sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case(tolerance=None)
def autocast_around_the_backward_too(wrap, in_float64=False):
    model, x, autocast = mixed_or_exact(Wide(), leaf(128, 64), in_float64)
    compiled = wrap(model)
    with autocast:
        y = compiled(x)
        (y.to(x.dtype) * leaf(128, 64, grad=False, seed=2)).sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case()
def autocast_around_the_backward_only(wrap):
    model, x = Mlp(), leaf(4, 8)
    y = wrap(model)(x)
    loss = y.square().sum()
    with torch.autocast("cpu", torch.bfloat16):
        loss.backward()
    return {"y": y, "kinds": flags(*(p.grad.dtype == torch.float32 for p in model.parameters()))}


@case(tolerance=None)
def autocast_inside(wrap, in_float64=False):
    model, x, _ = mixed_or_exact(Wide(), leaf(128, 64), in_float64)
    is_mixed = not in_float64

    def f(x):
        with torch.autocast("cpu", torch.bfloat16, enabled=is_mixed):
            y = model(x)
        return y.to(x.dtype) * 2

    y = wrap(f)(x)
    (y * leaf(128, 64, grad=False, seed=2)).sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case()
def accumulation_of_gradients(wrap):
    model = Mlp()
    compiled = wrap(model)
    for seed in range(3):
        compiled(leaf(4, 8, grad=False, seed=seed)).square().sum().backward()
    return gradients(model)


def _checkpointed(wrap, use_reentrant):
    first, second, x = Mlp(0.5), Mlp(0.5), leaf(4, 8)

    def f(x):
        h = checkpoint(first, x, use_reentrant=use_reentrant)
        return checkpoint(second, h, use_reentrant=use_reentrant)

    compiled = wrap(f)
    torch.manual_seed(5)
    y = compiled(x)
    y.square().sum().backward()
    return {"y": y, **gradients(nn.ModuleList([first, second]), x=x)}


@case()
def checkpointing_inside(wrap):
    return _checkpointed(wrap, use_reentrant=False)


@case()
def checkpointing_inside_reentrant(wrap):
    return _checkpointed(wrap, use_reentrant=True)


def _checkpoint_of_compiled(wrap, use_reentrant):
    model, x = Mlp(0.5), leaf(4, 8)
    compiled = wrap(model)
    torch.manual_seed(5)
    y = checkpoint(compiled, x, use_reentrant=use_reentrant)
    y.square().sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case()
def checkpointing_around(wrap):
    return _checkpoint_of_compiled(wrap, use_reentrant=False)


@case()
def checkpointing_around_reentrant(wrap):
    return _checkpoint_of_compiled(wrap, use_reentrant=True)


@case(refused=HOOKS, breaks="register_hook leaves the graph")
def checkpointing_where_the_graph_runs_in_eager(wrap):
    model, x = Mlp(0.5), leaf(4, 8)

    def f(x):
        h = checkpoint(model, x, use_reentrant=False)
        h.register_hook(lambda grad: grad * 2)
        return h.sin()

    compiled = wrap(f)
    torch.manual_seed(5)
    y = compiled(x)
    y.square().sum().backward()
    return {"y": y, **gradients(model, x=x)}


def _trained(wrap, make_optimizer):
    model = Mlp()
    compiled, optimizer = wrap(model), make_optimizer(model.parameters())
    losses = []
    for step in range(5):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        loss = compiled(leaf(4, 8, grad=False, seed=step)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return {"losses": torch.stack(losses), **{n: p.detach() for n, p in model.named_parameters()}}


@case()
def sgd(wrap):
    return _trained(wrap, lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9))


@case()
def adam(wrap):
    return _trained(wrap, lambda parameters: torch.optim.Adam(parameters, lr=0.01))


@case()
def adamw_foreach(wrap):
    return _trained(wrap, lambda parameters: torch.optim.AdamW(parameters, lr=0.01, foreach=True))


@case()
def adamw_fused(wrap):
    return _trained(wrap, lambda parameters: torch.optim.AdamW(parameters, lr=0.01, fused=True))


@case()
def grad_scaler_and_clipping(wrap):
    model = Mlp()
    compiled, optimizer = wrap(model), torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for seed in range(3):
        optimizer.zero_grad()
        loss = compiled(leaf(4, 8, grad=False, seed=seed)).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@case(breaks="Tensor.grad is read")
def a_step_of_an_optimizer_compiled(wrap):
    model, x = Mlp(), leaf(4, 8)
    model(x).square().sum().backward()

    @torch.no_grad()
    def step():
        for parameter in model.parameters():
            parameter.add_(parameter.grad, alpha=-0.1)

    wrap(step)()
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@case(breaks="Tensor.backward leaves the graph")
def backward_inside(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        loss = model(x).square().sum()
        loss.backward()
        return loss

    return {"loss": wrap(f)(x), **gradients(model, x=x)}


@case()
def train_and_eval(wrap):
    model, x = Mlp(0.5), leaf(4, 8)
    compiled = wrap(model)
    torch.manual_seed(1)
    first = compiled(x)
    model.eval()
    second = compiled(x)
    model.train()
    torch.manual_seed(1)
    third = compiled(x)
    (first.sum() + second.sin().sum() + third.sum()).backward()
    return {"first": first, "second": second, "third": third, **gradients(model, x=x)}


@case()
def gradients_on_and_off_around(wrap):
    model, x = Mlp(), leaf(4, 8)
    compiled = wrap(model)
    with_gradients = compiled(x)
    with torch.no_grad():
        without = compiled(x)
    with torch.inference_mode():
        inference = compiled(x)
    with_gradients.sum().backward()
    kinds = flags(with_gradients.requires_grad, without.requires_grad, inference.requires_grad)
    return {"without": without, "inference": inference.clone(), "kinds": kinds, **gradients(model, x=x)}


@case()
def dropout_follows_the_generator(wrap):
    model, x = Mlp(0.5), leaf(4, 8)
    compiled = wrap(model)
    torch.manual_seed(1)
    first, second = compiled(x), compiled(x)
    (first.sum() * 2 + second.sum()).backward()
    differ = flags(not torch.equal(first, second))
    return {
        "first": first,
        "second": second,
        "differ": differ,
        "next": torch.rand(2),
        **gradients(model, x=x),
    }


@case()
def dropout_of_attention(wrap):
    q, k, v = leaf(2, 2, 6, 8), leaf(2, 2, 6, 8, seed=2), leaf(2, 2, 6, 8, seed=3)
    compiled = wrap(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.3))
    torch.manual_seed(3)
    y = compiled(q, k, v)
    y.square().sum().backward()
    return {"y": y, **gradients(q=q, k=k, v=v)}


@case()
def random_slopes(wrap):
    x = leaf(4, 8)
    compiled = wrap(lambda x: F.rrelu(x, training=True))
    torch.manual_seed(3)
    y = compiled(x)
    y.sum().backward()
    return {"y": y, **gradients(x=x)}


@case()
def other_random_numbers(wrap):
    x = leaf(4, 8)
    compiled = wrap(lambda x: x * torch.rand_like(x) + torch.randn(4, 8) * x.sin())
    torch.manual_seed(3)
    y = compiled(x)
    y.sum().backward()
    return {"y": y, **gradients(x=x)}


@case()
def statistics_of_batch_norm(wrap):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    compiled, x = wrap(model), leaf(2, 3, 6, 6)
    for _ in range(3):
        y = compiled(x)
        y.sum().backward()
    model.eval()
    z = compiled(x)
    z.sum().backward()
    model.train()
    compiled(x).sum().backward()
    return {"y": y, "z": z, **gradients(model, x=x), **dict(model.named_buffers())}


@case(tolerance=None)
def statistics_of_batch_norm_in_16_bits(wrap, in_float64=False):
    torch.manual_seed(0)
    dtype = torch.float64 if in_float64 else torch.bfloat16
    x = leaf(16, 32, 12, 12, dtype=torch.bfloat16).detach().to(dtype).requires_grad_()
    model = nn.BatchNorm2d(32).to(dtype)
    y = wrap(model)(x)
    (y.to(torch.float64) * leaf(16, 32, 12, 12, grad=False, seed=2)).sum().backward()
    return {"y": y, **gradients(model, x=x), **dict(model.named_buffers())}


@case(tolerance=None)
def statistics_of_batch_norm_under_autocast(wrap, in_float64=False):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32))
    model, x, autocast = mixed_or_exact(model, leaf(16, 3, 14, 14), in_float64)
    compiled = wrap(model)
    with autocast:
        y = compiled(x)
    (y.to(torch.float64) * leaf(16, 32, 12, 12, grad=False, seed=2)).sum().backward()
    return {"y": y, **gradients(model, x=x), **dict(model.named_buffers())}


@case()
def parameters_in_a_list(wrap):
    """No module holds them: their names are those of the argument."""
    params = [nn.Parameter(leaf(8, 8, grad=False, seed=seed)) for seed in range(3)]
    x = leaf(4, 8)

    def f(params, x):
        for param in params:
            x = (x @ param).tanh()
        return x

    y = wrap(f)(params, x)
    y.square().sum().backward()
    return {"y": y, "d_x": x.grad, **{f"d_{place}": param.grad for place, param in enumerate(params)}}


@case()
def parameters_in_a_list_updated_in_place(wrap):
    params = [nn.Parameter(leaf(8, seed=seed, grad=False)) for seed in range(5)]

    def f(params):
        with torch.no_grad():
            for param in params:
                param.mul_(0.9)
                param.clamp_(-1, 1)

    versions = [param._version for param in params]
    wrap(f)(params)
    written = flags(*(param._version > before for param, before in zip(params, versions, strict=True)))
    return {"written": written, **{f"{place}": param.detach() for place, param in enumerate(params)}}
