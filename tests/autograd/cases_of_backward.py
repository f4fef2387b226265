"""Cases: how a backward pass is asked for, what comes in as a gradient, and what transforms a call."""

from __future__ import annotations

import torch
from torch import nn

from tests.autograd.cases import Cases, Mlp, flags, gradients, leaf
from tests.autograd.cases_between_calls import error_of

case = Cases()


@case()
def both_of_two_results_one_after_the_other(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        h = model.a(x)
        return h.exp(), model.b(h)

    first, second = wrap(f)(x)
    first.sum().backward(retain_graph=True)
    once = x.grad.clone()
    second.square().sum().backward()
    return {"once": once, **gradients(model, x=x)}


@case()
def a_second_backward_without_the_graph(wrap):
    model, x = Mlp(), leaf(4, 8)
    y = wrap(model)(x)
    y.sum().backward()
    return {"refused": error_of(y.sum().backward), **gradients(model, x=x)}


@case()
def backward_for_some_inputs(wrap):
    model, x = Mlp(), leaf(4, 8)
    wrap(model)(x).square().sum().backward(inputs=[model.b.weight, x])
    return gradients(model, x=x)


@case()
def grad_for_some_inputs_and_what_is_unused(wrap):
    model, x, z = Mlp(), leaf(4, 8), leaf(4, 8, seed=5)
    y = wrap(lambda x, z: (model(x), z.detach() * 2))(x, z)[0]
    found = torch.autograd.grad(y.sum(), [x, z, model.a.bias], allow_unused=True)
    return {"x": found[0], "z": found[1], "bias": found[2], **gradients(model, x=x)}


@case()
def gradients_that_are_not_contiguous(wrap):
    model, x = Mlp(), leaf(4, 8)
    y = wrap(model)(x)
    y.backward(leaf(8, 4, grad=False, seed=4).t(), retain_graph=True)
    y.backward(leaf(16, 8, grad=False, seed=5)[::2, ::2].t())
    return gradients(model, x=x)


@case()
def gradients_of_images_that_lie_otherwise(wrap):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), leaf(2, 3, 6, 6)
    y = wrap(model)(x.contiguous(memory_format=torch.channels_last))
    y.backward(leaf(2, 4, 4, 4, grad=False, seed=3).contiguous(memory_format=torch.channels_last))
    return {"y": y, **gradients(model, x=x)}


@case()
def a_gradient_that_is_written_afterwards(wrap):
    x, z = leaf(4, 8), leaf(4, 8, seed=2)
    given = torch.ones(4, 8)
    wrap(lambda x, z: x + z)(x, z).backward(given)
    x.grad.mul_(2)  # if x and z shared it, both would see it
    return {"given": given, **gradients(x=x, z=z)}


@case()
def gradients_that_are_not_finite(wrap):
    x, w = leaf(4, 8), leaf(8, seed=2)
    y = wrap(lambda x, w: torch.where(x > 0, x * w, 0.0).relu())(x, w)
    given = leaf(4, 8, grad=False, seed=3).clone()
    given[0, 0], given[1, 1], given[2, 2] = float("inf"), float("nan"), -float("inf")
    y.backward(given)
    return {key: value.nan_to_num(7.0, 8.0, 9.0) for key, value in gradients(x=x, w=w).items()}


@case()
def inputs_that_are_not_finite(wrap):
    with torch.no_grad():
        x = leaf(4, 8).clone()
        x[0, 0], x[1, 1], x[2, 2] = float("inf"), float("nan"), -float("inf")
    x.requires_grad_()

    def f(x):
        return torch.stack([x.softmax(-1), x.clamp(-1, 1), x.abs(), x.maximum(-x), x.tanh()])

    y = wrap(f)(x)
    y.sum(0).square().backward(torch.ones(4, 8))
    return {"y": y.nan_to_num(7.0, 8.0, 9.0), "d_x": x.grad.nan_to_num(7.0, 8.0, 9.0)}


@case()
def where_derivatives_are_ties(wrap):
    x = torch.tensor([[1.0, 2.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0]], requires_grad=True)

    def f(x):
        ties = x.amax(-1), x.max(-1).values, x.amin(0), torch.maximum(x, x.flip(-1)), x.abs(), x.relu()
        return [*ties, x.clamp(0, 2), x.sign(), x.norm(dim=-1), (x + 0).prod(-1), x.median(-1).values]

    y = wrap(f)(x)
    sum((one * (number + 1)).sum() for number, one in enumerate(y)).backward()
    return {f"{number}": one for number, one in enumerate(y)} | gradients(x=x)


@case()
def hooks_on_what_is_saved(wrap):
    model, x, n_packed = Mlp(), leaf(4, 8), []

    def pack(tensor):
        n_packed.append(1)
        return tensor.clone()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = wrap(model)(x)
    y.square().sum().backward()
    return {"packed": flags(bool(n_packed)), **gradients(model, x=x)}


@case()
def anomalies_are_detected(wrap):
    x = leaf(4, 8)
    compiled = wrap(lambda x: (x * 0).sqrt() * x)
    with torch.autograd.detect_anomaly(check_nan=True):
        y = compiled(x)
        return {"refused": error_of(y.sum().backward)}


@case()
def a_leaf_that_also_goes_another_way(wrap):
    model, x = Mlp(), leaf(4, 8)
    y = wrap(model)(x.sin())
    (y.sum() + also(model, x) + x.square().sum()).backward()
    return gradients(model, x=x)


def also(model, x):
    return sum(parameter.square().sum() for parameter in model.parameters()) + model(x).cos().sum()


@case()
def the_gradient_of_a_gradient(wrap):
    """The unit's first derivative may be taken, its second one is an error."""
    x = leaf(4, 8)
    y = wrap(lambda x: (x * 2).sin() * x)(x)
    (first,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    return {"first": first}


@case()
def penalty_on_a_gradient_outside(wrap):
    """The second derivative does not go through the unit."""
    model, x = Mlp(), leaf(4, 8)
    features = x.sin()
    y = wrap(model)(features.detach())
    (first,) = torch.autograd.grad(features.square().sum(), x, create_graph=True)
    (y.sum() + first.square().sum()).backward()
    return gradients(model, x=x)


@case(breaks="a transform of torch.func is running")
def grad_of_torch_func_around(wrap):
    x = leaf(4, 8, grad=False)
    compiled = wrap(lambda x: (x * 2).sin() * x)
    compiled(x)
    return {"d_x": torch.func.grad(lambda x: compiled(x).sum())(x)}


@case(breaks="a transform of torch.func is running")
def vmap_around(wrap):
    x, w = leaf(4, 8, grad=False), leaf(8, seed=4)
    compiled = wrap(lambda row, w: (row * w).softmax(-1))
    compiled(x[0], w)
    y = torch.func.vmap(compiled, (0, None))(x, w)
    y.square().sum().backward()
    return {"y": y, **gradients(w=w)}


@case(breaks="a transform of torch.func is running")
def jacobian_around(wrap):
    x = leaf(5, grad=False)
    compiled = wrap(lambda x: x.sin() * x.sum())
    compiled(x)
    return {
        "forward": torch.func.jacfwd(compiled)(x),
        "reverse": torch.func.jacrev(compiled)(x),
        "old": torch.autograd.functional.jacobian(compiled, x),
    }


@case(refused="inference mode", breaks="inference tensor")
def inference_mode_inside(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        with torch.inference_mode():
            scale = x.abs().mean()
        return model(x) * scale.item()

    y = wrap(f)(x)
    y.sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case(breaks="inference tensor")
def an_input_made_in_inference_mode(wrap):
    model = Mlp()
    with torch.inference_mode():
        x = leaf(4, 8, grad=False) * 2
    compiled = wrap(model)
    return {"refused": error_of(lambda: compiled(x).sum().backward())}


@case()
def the_code_asks_whether_gradients_are_wanted(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        h = model(x)
        if x.requires_grad and torch.is_grad_enabled():
            h = h * 2
        return h * 3 if h.requires_grad else h

    compiled = wrap(f)
    y, z = compiled(x), compiled(x.detach())
    with torch.no_grad():
        w = compiled(x)
    (y.sum() + z.square().sum()).backward()
    return {"y": y, "z": z, "w": w, **gradients(model, x=x)}


@case(breaks="retain_grad leaves the graph")
def a_gradient_is_kept_inside(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        h = model.a(x)
        h.retain_grad()
        return model.b(h), h

    y, h = wrap(f)(x)
    y.square().sum().backward()
    return {"y": y, "d_h": h.grad, **gradients(model, x=x)}


@case()
def a_gradient_is_kept_outside(wrap):
    model, x = Mlp(), leaf(4, 8)
    y = wrap(model)(x * 1)
    y.retain_grad()
    y.square().sum().backward()
    return {"d_y": y.grad, **gradients(model, x=x)}


@case()
def a_view_of_an_input_with_a_history_is_written(wrap):
    x = leaf(4, 8)
    given = x * 1

    def f(given):
        given[1:3].mul_(2)
        return given.sin()

    y = wrap(f)(given)
    (y.sum() + given.square().sum()).backward()
    return {"y": y, "given": given, **gradients(x=x)}


@case()
def a_parameter_is_copied_into_a_buffer(wrap):
    model, x, average = Mlp(), leaf(4, 8), torch.zeros(16, 8)

    def f(x):
        average.lerp_(model.a.weight.detach(), 0.1)
        return model(x) + average.mean()

    y = wrap(f)(x)
    y.sum().backward()
    return {"y": y, "average": average, **gradients(model, x=x)}


@case()
def a_loss_of_no_elements(wrap):
    x = leaf(4, 8)
    y = wrap(lambda x: (x[:0] * 2, x[:, :0].sum(), x.exp()))(x)
    (y[0].sum() + y[1]).backward()
    return {"nothing": y[0], "sum": y[1], **gradients(x=x)}
