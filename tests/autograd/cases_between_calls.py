"""Cases: what changes between two calls, or between a forward pass and its backward pass."""

from __future__ import annotations

import copy
import pickle
import threading

import torch
import torch.nn.functional as F
from torch import nn

from tests.autograd.cases import Cases, Mlp, flags, gradients, leaf

case = Cases()


def error_of(run):
    """The class of what is raised, as a tensor: 0 for nothing, 1 for RuntimeError, 2 for another."""
    try:
        run()
    except RuntimeError:
        return torch.tensor(1)
    except Exception:
        return torch.tensor(2)
    return torch.tensor(0)


@case()
def parameters_frozen_and_unfrozen(wrap):
    model, x = Mlp(), leaf(4, 8)
    compiled, found = wrap(model), {}
    for number, wanted in enumerate((True, False, True, False)):
        model.a.requires_grad_(wanted)
        compiled(x).square().sum().backward()
        found |= {f"{name} {number}": p.grad.clone() for name, p in gradients_of(model) if p.grad is not None}
        model.zero_grad()
    return {**found, "d_x": x.grad}


def gradients_of(model):
    return list(model.named_parameters())


@case()
def an_input_starts_and_stops_to_require_grad(wrap):
    model, found = Mlp(), {}
    compiled = wrap(model)
    for number, wanted in enumerate((False, True, False, True)):
        x = leaf(4, 8, grad=wanted, seed=number)
        compiled(x).sin().sum().backward()
        found[f"x {number}"] = x.grad
    return {**found, **gradients(model)}


@case()
def everything_stops_to_require_grad(wrap):
    model, x = Mlp(), leaf(4, 8)
    compiled = wrap(model)
    first = compiled(x)
    model.requires_grad_(False)
    second = compiled(x.detach())
    third = compiled(x)
    (first.sum() + third.square().sum()).backward()
    kinds = flags(first.requires_grad, second.requires_grad, third.requires_grad)
    return {"kinds": kinds, "second": second, **gradients(model, x=x)}


@case()
def autocast_comes_and_goes(wrap):
    model, x = Mlp(), leaf(4, 8)
    compiled = wrap(model)
    first = compiled(x)
    with torch.autocast("cpu", torch.bfloat16):
        second = compiled(x)
    third = compiled(x)
    (first.sum() + third.square().sum()).backward()
    kinds = flags(second.dtype is torch.bfloat16, third.dtype is torch.float32)
    return {"kinds": kinds, "first": first, "third": third, **gradients(model, x=x)}


@case()
def the_dropout_of_a_module_changes(wrap):
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2)), leaf(4, 8)
    compiled, found = wrap(seeded(model)), {}
    for number, p in enumerate((0.2, 0.8, 0.0, 0.2)):
        model[1].p = p
        torch.manual_seed(number)
        found[f"y {number}"] = compiled(x)
        found[f"y {number}"].sum().backward()
    return {**found, **gradients(model, x=x)}


def seeded(model):
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model


@case()
def a_module_and_a_weight_are_replaced(wrap):
    model, x = Mlp(), leaf(4, 8)
    compiled = wrap(model)
    first = compiled(x)
    model.b = seeded(nn.Linear(16, 8, bias=False))
    second = compiled(x)
    model.a.weight = nn.Parameter(leaf(16, 8, grad=False, seed=9))
    third = compiled(x)
    (first.sum() + second.square().sum() + third.sin().sum()).backward()
    return {"first": first, "second": second, "third": third, **gradients(model, x=x)}


@case()
def the_memory_of_a_weight_is_replaced(wrap):
    model, x = Mlp(), leaf(4, 8)
    compiled = wrap(model)
    compiled(x).sum().backward()
    model.a.weight.data = model.a.weight.data * 2
    compiled(x).square().sum().backward()
    return gradients(model, x=x)


@case()
def hooks_on_a_parameter_come_and_go(wrap):
    model, x = Mlp(), leaf(4, 8)
    compiled = wrap(model)
    first = compiled(x)
    triples = model.a.weight.register_hook(lambda grad: grad * 3)
    compiled(x).square().sum().backward()
    triples.remove()
    second = compiled(x)
    (first.sum() + second.sin().sum()).backward()
    return {"first": first, "second": second, **gradients(model, x=x)}


@case()
def a_python_number_changes(wrap):
    x, found = leaf(4, 8), {}
    compiled = wrap(lambda x, scale: (x * scale).sin())
    for number, scale in enumerate((1.5, 2.5, 1.5, 0.0)):
        found[f"y {number}"] = compiled(x, scale)
        found[f"y {number}"].sum().backward()
    return {**found, **gradients(x=x)}


@case()
def the_default_dtype_changes(wrap):
    x = leaf(4, 8)
    compiled = wrap(lambda x: x * torch.ones(8) + torch.arange(8) / 3)
    first = compiled(x)
    torch.set_default_dtype(torch.float64)
    try:
        second = compiled(x)
    finally:
        torch.set_default_dtype(torch.float32)
    (first.sum() + second.square().sum()).backward()
    return {"first": first, "second": second, **gradients(x=x)}


@case()
def an_optimizer_steps_before_the_backward(wrap):
    model, x = Mlp(), leaf(4, 8)
    compiled = wrap(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled(x).sum().backward(inputs=list(model.parameters()))
    loss = compiled(x).square().sum()
    optimizer.step()
    return {"refused": error_of(loss.backward)}


@case()
def a_result_that_is_kept_is_written(wrap):
    x = leaf(4, 8)
    y = wrap(lambda x: (x * 2).exp())(x)
    with torch.no_grad():
        y.add_(1)
    return {"refused": error_of(y.sum().backward)}


@case()
def a_result_is_written_and_goes_on(wrap):
    model, x = Mlp(), leaf(4, 8)
    y = wrap(model)(x)
    y.mul_(x)
    y[:, 1:3].add_(1)
    y.sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case()
def a_buffer_is_written_before_the_backward(wrap):
    model, x = Mlp(), leaf(4, 8)
    model.register_buffer("scale", torch.ones(8))
    compiled = wrap(lambda x: model(x * 2) * model.scale)
    loss = compiled(x).square().sum()
    model.scale.add_(1)
    return {"refused": error_of(loss.backward)}


@case()
def copies_of_a_module_train_apart(wrap):
    model, x = Mlp(), leaf(4, 8)
    compiled = wrap(model)
    compiled(x).sum().backward()
    other = copy.deepcopy(compiled)
    other(x).square().sum().backward()
    seen = {f"other {name}": parameter.grad for name, parameter in other.named_parameters()}
    return {**{name.replace("_orig_mod.", ""): grad for name, grad in seen.items()}, **gradients(model, x=x)}


@case()
def a_state_dict_is_loaded_between_steps(wrap):
    model, x = Mlp(), leaf(4, 8)
    compiled = wrap(model)
    compiled(x).sum().backward()
    state = pickle.loads(pickle.dumps(model.state_dict()))
    model.load_state_dict({name: tensor * 2 for name, tensor in state.items()})
    compiled(x).square().sum().backward()
    model.load_state_dict({name: tensor * 3 for name, tensor in state.items()}, assign=True)
    z = compiled(x)
    z.sin().sum().backward()
    return {"z": z, **gradients(model, x=x)}


@case()
def threads_step_together(wrap):
    models = [Mlp() for _ in range(4)]
    inputs = [leaf(4, 8, seed=seed) for seed in range(4)]
    shared = leaf(8, seed=7)
    compiled = wrap(lambda model, x: (model(x) * shared).sin())
    compiled(models[0], inputs[0])  # in Dynamo, one thread compiles

    def step(number):
        for _ in range(3):
            compiled(models[number], inputs[number]).sum().backward()

    threads = [threading.Thread(target=step, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {f"x {number}": x.grad for number, x in enumerate(inputs)}
    return found | {
        f"{number} {key}": grad for number, m in enumerate(models) for key, grad in gradients(m).items()
    }


@case(breaks="float() needs a tensor's value")
def batch_norm_without_momentum(wrap):
    model, x = nn.BatchNorm1d(8, momentum=None), leaf(6, 8)
    compiled = wrap(model)
    for scale in (1.0, 2.0, 3.0):
        y = compiled(x * scale)
        y.square().sum().backward()
    return {"y": y, **gradients(model, x=x), **dict(model.named_buffers())}


@case()
def batch_norm_without_statistics(wrap):
    model, x = nn.BatchNorm1d(8, track_running_stats=False), leaf(6, 8)
    compiled = wrap(model)
    first = compiled(x)
    model.eval()
    second = compiled(x * 2)
    (first.sin().sum() + second.square().sum()).backward()
    return {"first": first, "second": second, **gradients(model, x=x)}


@case()
def part_of_a_model_is_in_eval_mode(wrap):
    model, x = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)), leaf(6, 8)
    compiled = wrap(seeded(model))
    found = {}
    for number, training in enumerate((True, False, True)):
        model[1].train(training)
        torch.manual_seed(number)
        found[f"y {number}"] = compiled(x)
        found[f"y {number}"].sin().sum().backward()
    return {**found, **gradients(model, x=x), **dict(model.named_buffers())}


@case(refused="shares memory with parametrizations", is_whole=True)
def spectral_norm(wrap):
    torch.manual_seed(0)
    model, x = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)), leaf(4, 8)
    compiled = wrap(model)
    for _ in range(3):
        y = compiled(x)
        y.square().sum().backward()
    model.eval()
    z = compiled(x)
    return {"y": y, "z": z, **gradients(model, x=x), **dict(model.named_buffers())}


@case()
def the_batch_becomes_empty(wrap):
    model, found = Mlp(), {}
    compiled = wrap(model)
    for size in (4, 0, 4):
        x = leaf(size, 8)
        found[f"y {size}"] = compiled(x)
        F.mse_loss(found[f"y {size}"], torch.zeros(size, 8), reduction="sum").backward()
        found[f"x {size}"] = x.grad
    return {**found, **gradients(model)}
