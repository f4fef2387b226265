"""Cases: where gradients flow: hooks, functions with derivatives of their own, stops, dtypes, kinds of parameters."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.autograd.cases import HOOKS, Cases, Mlp, flags, gradients, leaf

case = Cases()


@case(refused=HOOKS, breaks="register_hook leaves the graph")
def hook_on_a_tensor_inside(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        h = model.a(x)
        h.register_hook(lambda grad: grad * 3)
        return model.b(h.relu())

    y = wrap(f)(x)
    y.sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case()
def hooks_on_tensors_outside(wrap):
    model, x, seen = Mlp(), leaf(4, 8), []
    given = x * 1
    given.register_hook(lambda grad: (seen.append(grad.clone()), grad * 2)[1])
    y = wrap(model)(given)
    y.register_hook(lambda grad: grad * 3)
    y.sum().backward()
    return {"y": y, "seen": seen[0], **gradients(model, x=x)}


@case()
def hooks_on_parameters(wrap):
    model, x, seen = Mlp(), leaf(4, 8), []
    model.a.weight.register_hook(lambda grad: grad * 2)
    model.b.bias.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter.grad.clone()))
    y = wrap(model)(x)
    y.sum().backward()
    return {"y": y, "seen": seen[0], **gradients(model, x=x)}


@case()
def forward_hooks_on_modules(wrap):
    model, x = Mlp(), leaf(4, 8)
    model.a.register_forward_hook(lambda module, inputs, output: output * 2)
    model.b.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    y = wrap(model)(x)
    y.sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case(breaks="backward or global hooks")
def backward_hooks_on_modules(wrap):
    model, x = Mlp(), leaf(4, 8)
    model.a.register_full_backward_hook(lambda module, into, out: (into[0] * 2,))
    model.b.register_full_backward_pre_hook(lambda module, out: (out[0] * 3,))
    y = wrap(model)(x)
    y.sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case()
def retain_graph(wrap):
    model, x = Mlp(), leaf(4, 8)
    y = wrap(model)(x)
    y.sum().backward(retain_graph=True)
    y.square().sum().backward(retain_graph=True)
    y.sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case()
def parameter_used_twice(wrap):
    x, w = leaf(4, 8), leaf(8, 8, seed=2)
    y = wrap(lambda x, w: (x @ w).relu() @ w)(x, w)
    y.sum().backward()
    return {"y": y, **gradients(x=x, w=w)}


class Tied(nn.Module):
    """Two modules with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Mlp()
        self.outer = nn.Linear(8, 16, bias=False)
        self.outer.weight = self.inner.a.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(self.inner(x))


@case()
def tied_parameters(wrap):
    model, x = Tied(), leaf(4, 8)
    y = wrap(model)(x)
    y.square().sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case()
def frozen_parameters(wrap):
    model, x = Mlp(), leaf(4, 8, grad=False)
    model.a.requires_grad_(False)
    y = wrap(model)(x)
    y.square().sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case()
def parameters_that_nothing_depends_on(wrap):
    model, x = Mlp(), leaf(4, 8)
    y = wrap(lambda x: model.b(model.a(x).detach().relu()) + x.detach() * x)(x)
    y.sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case()
def parameters_computed_from_others(wrap):
    model, scale, x = Mlp(), leaf(1, seed=7), leaf(4, 8)
    weights = {name: parameter * scale for name, parameter in model.named_parameters()}
    y = wrap(lambda weights, x: torch.func.functional_call(model, weights, (x,)))(weights, x)
    y.square().sum().backward()
    return {"y": y, **gradients(model, scale=scale)}


@case()
def weight_norm(wrap):
    torch.manual_seed(0)
    model, x = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)), leaf(4, 8)
    y = wrap(model)(x)
    y.square().sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case()
def input_that_needs_no_gradient(wrap):
    a, b = leaf(4, 8), leaf(4, 8, grad=False, seed=3)
    y = wrap(lambda a, b: (a * b).tanh())(a, b)
    y.sum().backward()
    return {"y": y, **gradients(a=a, b=b)}


@case()
def one_of_several_outputs(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        h = model.a(x)
        return h.relu(), model.b(h), h.exp()

    outputs = wrap(f)(x)
    outputs[1].sum().backward()
    return {"y": outputs[1], **gradients(model, x=x)}


@case()
def outputs_that_are_no_tensors(wrap):
    model, x = Mlp(), leaf(4, 8)
    found = wrap(lambda x: {"y": model(x), "none": None, "three": 3, "list": [model.a(x), "text"]})(x)
    (found["y"].sum() + found["list"][0].square().sum()).backward()
    same = flags(found["none"] is None, found["three"] == 3, found["list"][1] == "text")
    return {"y": found["y"], "same": same, **gradients(model, x=x)}


@case()
def outputs_without_derivative(wrap):
    model, x = Mlp(), leaf(4, 8)
    outputs = wrap(lambda x: (model(x), x.argmax(-1), x > 0, x.floor(), torch.ones_like(x)))(x)
    outputs[0].sum().backward()
    kinds = flags(*(output.requires_grad for output in outputs))
    return {"y": outputs[0], "place": outputs[1], "kinds": kinds, **gradients(model, x=x)}


@case()
def output_that_depends_on_no_parameter(wrap):
    x, c = leaf(4, 8), leaf(4, 8, grad=False, seed=9)
    a, b = wrap(lambda x, c: (x * 2, c * 3))(x, c)
    a.sum().backward()
    return {"a": a, "b": b, "kinds": flags(a.requires_grad, b.requires_grad), **gradients(x=x)}


@case()
def nothing_that_carries_gradients(wrap):
    model, x = Mlp(), leaf(4, 8)
    return {"place": wrap(lambda x: model(x).argmax(-1))(x)}


@case()
def complex_numbers(wrap):
    x, w = leaf(4, 8), leaf(8, 8, seed=3)

    def f(x, w):
        z = torch.complex(x, x @ w)
        return (z * z.conj()).real + (z * (1 + 2j)).imag

    y = wrap(f)(x, w)
    y.sum().backward()
    return {"y": y, **gradients(x=x, w=w)}


@case()
def complex_leaves(wrap):
    z = torch.complex(leaf(4, 8, grad=False), leaf(4, 8, grad=False, seed=3)).requires_grad_()
    y = wrap(lambda z: (z * z.exp()).abs())(z)
    y.sum().backward()
    return {"y": y, **gradients(z=z)}


@case()
def fourier_transform(wrap):
    x = leaf(4, 8)
    y = wrap(lambda x: torch.fft.rfft(x).abs())(x)
    y.sum().backward()
    return {"y": y, **gradients(x=x)}


@case(refused="sparse")
def sparse_gradient_of_an_embedding(wrap):
    torch.manual_seed(0)
    model = nn.Embedding(10, 4, sparse=True)
    y = wrap(model)(torch.tensor([1, 3, 3]))
    y.sum().backward()
    return {"y": y, "kind": flags(model.weight.grad.is_sparse), "d_weight": model.weight.grad.to_dense()}


@case()
def padding_and_frequencies_of_an_embedding(wrap):
    torch.manual_seed(0)
    model = nn.Embedding(10, 4, padding_idx=3, scale_grad_by_freq=True)
    y = wrap(model)(torch.tensor([1, 3, 3, 1, 2]))
    y.sum().backward()
    return {"y": y, **gradients(model)}


@case(refused="does not see it")
def embedding_with_a_largest_norm(wrap):
    torch.manual_seed(0)
    model = nn.Embedding(10, 4, max_norm=0.5)
    y = wrap(model)(torch.tensor([1, 3, 3, 1, 2]))
    y.sum().backward()
    return {"y": y, "weight": model.weight.detach(), **gradients(model)}


@case()
def no_grad_inside(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        with torch.no_grad():
            h = model.a(x)
        return model.b(h.relu()) + x, h

    y, h = wrap(f)(x)
    y.sum().backward()
    return {"y": y, "h": h, "kinds": flags(h.requires_grad), **gradients(model, x=x)}


@case()
def no_grad_on_a_function_inside(wrap):
    model, x = Mlp(), leaf(4, 8)

    @torch.no_grad()
    def inner(x):
        return model.a(x)

    y = wrap(lambda x: model.b(inner(x).relu()) + x)(x)
    y.sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case()
def enable_grad_inside_no_grad(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        with torch.enable_grad():
            y = model(x)
        return y, y * 2

    with torch.no_grad():
        y, twice = wrap(f)(x)
    y.sum().backward()
    return {"y": y, "kinds": flags(y.requires_grad, twice.requires_grad), **gradients(model, x=x)}


@case(breaks="requires_grad_ leaves the graph")
def requires_grad_inside(wrap):
    x = leaf(4, 8, grad=False)

    def f(x):
        h = x * 2
        h.requires_grad_()
        return h.sin(), h

    y, h = wrap(f)(x)
    y.sum().backward()
    return {"y": y, **gradients(h=h)}


@case()
def other_branch_has_no_derivative(wrap):
    x = leaf(4, 8)
    y = wrap(lambda x: torch.where(x > 0, x.clamp(min=0).sqrt(), x * 0))(x)
    y.sum().backward()
    return {"y": y, **gradients(x=x)}


@case()
def double_precision(wrap):
    model, x = Mlp().double(), leaf(4, 8, dtype=torch.float64)
    y = wrap(model)(x)
    y.sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case(refused="a function of torch.func", breaks="a transform of torch.func is running")
def transforms_of_functions_inside(wrap):
    w, x = leaf(8, seed=2), leaf(4, 8)

    def each(w, x):
        return torch.func.grad(lambda w, x: (w * x).sin().sum())(w, x)

    y = wrap(lambda w, x: torch.func.vmap(each, (None, 0))(w, x))(w, x)
    y.square().sum().backward()
    return {"y": y, **gradients(w=w, x=x)}


@case()
def gradient_of_one_row_for_all(wrap):
    model, x = Mlp(), leaf(4, 8)
    wrap(model)(x).backward(torch.ones(1, 1).expand(4, 8))
    return gradients(model, x=x)


@case()
def loss_functions(wrap):
    x, target = leaf(6, 5), torch.tensor([0, 4, 2, -100, 1, 1])

    def f(x):
        weight = torch.linspace(1, 2, 5)
        smooth = F.cross_entropy(x, target, weight, label_smoothing=0.1)
        return smooth + F.cross_entropy(x, target) + F.huber_loss(x, x.detach() * 2)

    y = wrap(f)(x)
    y.backward()
    return {"y": y, **gradients(x=x)}


@case()
def class_weights_and_probabilities_of_a_loss(wrap):
    """A value waits in a row that another result is written into."""
    x, target, weight = leaf(6, 5), leaf(6, 5, grad=False, seed=2).softmax(-1), leaf(5, seed=3)
    target.requires_grad_()
    y = wrap(lambda x, target, weight: F.cross_entropy(x, target, weight=weight, reduction="sum"))(
        x, target, weight
    )
    y.backward()
    return {"y": y, **gradients(x=x, target=target, weight=weight)}


@case()
def rows_of_softmax_that_are_masked_wholly(wrap):
    x, mask = leaf(4, 8), torch.tensor([True, False, True, False])[:, None].expand(4, 8)
    y = wrap(lambda x: torch.ops.aten._safe_softmax(x.masked_fill(mask, float("-inf")) * 2, -1) * x)(x)
    y.sum().backward()
    return {"y": y, **gradients(x=x)}


@case()
def positions_written_in_a_function(wrap):
    x = leaf(4, 8)
    y = wrap(lambda x: (x[torch.tensor([1, 1, 0, 3])] * x).sin())(x)
    y.sum().backward()
    return {"y": y, **gradients(x=x)}
