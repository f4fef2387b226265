"""Cases: memory that tensors share, and writes: aliases among inputs and results, views, in-place ops."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.autograd.cases import Cases, Mlp, flags, gradients, leaf

case = Cases()


@case()
def output_is_an_input(wrap):
    model, x = Mlp(), leaf(4, 8)
    y, same = wrap(lambda x: (model(x), x))(x)
    (y.sum() + same.square().sum()).backward()
    return {"y": y, "same": flags(same is x), **gradients(model, x=x)}


@case()
def output_is_a_view_of_an_input(wrap):
    model, x = Mlp(), leaf(4, 8)
    y, view = wrap(lambda x: (model(x), x.view(8, 4)))(x)
    (y.sum() + view.square().sum()).backward()
    return {"y": y, "view": view, "same": flags(view._base is x), **gradients(model, x=x)}


@case()
def output_is_a_view_of_a_parameter(wrap):
    model, x = Mlp(), leaf(4, 8)
    y, view = wrap(lambda x: (model(x), model.a.weight.t()))(x)
    (y.sum() + view.square().sum()).backward()
    return {"y": y, "view": view, **gradients(model, x=x)}


@case()
def outputs_are_views_of_another_output(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        h = model(x)
        return h, h.view(-1), h.t()

    y, flat, turned = wrap(f)(x)
    (y.sum() + flat.square().sum() + turned.sin().sum()).backward()
    shared = flags(flat.data_ptr() == y.data_ptr(), turned.data_ptr() == y.data_ptr())
    return {"y": y, "flat": flat, "turned": turned, "shared": shared, **gradients(model, x=x)}


@case()
def outputs_are_views_of_what_is_no_output(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        h = model(x)
        return h[:2], h[2:], h.sum()

    top, bottom, total = wrap(f)(x)
    (top.sin().sum() + bottom.square().sum() + total).backward()
    return {"top": top, "bottom": bottom, "total": total, **gradients(model, x=x)}


@case()
def a_write_into_a_view_that_came_out(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        h = model(x)
        return h, h[0]

    y, row = wrap(f)(x)
    row.mul_(3)
    y.square().sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case()
def outputs_are_the_same(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        h = model(x)
        return h, h

    first, second = wrap(f)(x)
    (first.sum() + second.square().sum()).backward()
    return {"y": first, "same": flags(first is second), **gradients(model, x=x)}


@case()
def outputs_are_detached(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        h = model(x)
        return h, h.detach(), x.detach()

    y, detached, given = wrap(f)(x)
    y.sum().backward()
    kinds = flags(y.requires_grad, detached.requires_grad, given.requires_grad)
    return {"y": y, "detached": detached, "kinds": kinds, **gradients(model, x=x)}


@case()
def views_inside(wrap):
    x, w = leaf(4, 8), leaf(8, 24, seed=2)

    def f(x, w):
        q, k, v = (x @ w).chunk(3, -1)
        heads = q.view(4, 2, 4).transpose(0, 1) * k.view(4, 2, 4).transpose(0, 1)
        return heads.reshape(2, -1), v[1:].unsqueeze(0).expand(2, -1, -1)

    heads, rest = wrap(f)(x, w)
    (heads.sin().sum() + rest.square().sum()).backward()
    return {"heads": heads, "rest": rest, **gradients(x=x, w=w)}


@case()
def inputs_overlap(wrap):
    base = leaf(4, 8)
    y = wrap(lambda a, b: a * b.sin())(base[:2], base[1:3])
    y.sum().backward()
    return {"y": y, **gradients(base=base)}


@case(refused="share memory")
def inputs_overlap_and_one_is_written(wrap):
    base, w = leaf(4, 8, grad=False), leaf(8, seed=4)

    def f(a, b, w):
        a.add_(1)
        return a * b * w

    y = wrap(f)(base[:2], base[1:3], w)
    y.sum().backward()
    return {"y": y, "base": base, **gradients(w=w)}


@case()
def inputs_are_the_same(wrap):
    x = leaf(4, 8)
    y = wrap(lambda a, b: a * b.sin())(x, x)
    y.sum().backward()
    return {"y": y, **gradients(x=x)}


@case()
def input_is_expanded(wrap):
    x = leaf(1, 8)
    y = wrap(lambda e: e.sin() * 2)(x.expand(4, 8))
    y.sum().backward()
    return {"y": y, **gradients(x=x)}


@case()
def input_is_conjugated(wrap):
    z, x = torch.complex(leaf(4, 8, grad=False), leaf(4, 8, grad=False, seed=3)), leaf(4, 8)
    y = wrap(lambda x, z: (x * z).imag)(x, z.conj())
    y.sum().backward()
    return {"y": y, **gradients(x=x)}


@case()
def input_without_gradient_is_written(wrap):
    x, w = leaf(4, 8, grad=False), leaf(8, seed=4)

    def f(x, w):
        x.mul_(2)
        return x * w

    y = wrap(f)(x, w)
    y.sum().backward()
    return {"y": y, "x": x, **gradients(w=w)}


@case()
def gradients_are_written_into_an_input(wrap):
    x, w = leaf(4, 8, grad=False), leaf(8, seed=4)

    def f(x, w):
        x.mul_(w)
        return x.sum()

    y = wrap(f)(x, w)
    (y + x.sin().sum()).backward()
    return {"y": y, "x": x, **gradients(w=w)}


@case()
def input_with_a_history_is_written(wrap):
    start, w = leaf(4, 8), leaf(8, seed=4)
    x = start * 2

    def f(x, w):
        x.mul_(w)
        return x.sin()

    y = wrap(f)(x, w)
    (y.sum() + x.square().sum()).backward()
    return {"y": y, "x": x, **gradients(w=w, start=start)}


@case()
def parameter_is_written_without_gradients(wrap):
    w, x = leaf(8, seed=4), leaf(4, 8)

    def f(x, w):
        with torch.no_grad():
            w.mul_(2)
        return x * w

    y = wrap(f)(x, w)
    y.sum().backward()
    return {"y": y, "w": w, **gradients(x=x, w=w)}


@case(refused="does not see it")
def detached_alias_is_written(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        h = model.a(x)
        h.detach().mul_(2)
        return h * 3

    y = wrap(f)(x)
    y.sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case(refused="does not see it")
def intermediate_is_written_without_gradients(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        h = model.a(x)
        with torch.no_grad():
            h[:, :3].zero_()
        return h * 3

    y = wrap(f)(x)
    y.sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case()
def running_mean_is_written_without_gradients(wrap):
    model, x, mean = Mlp(), leaf(4, 8), torch.zeros(16)

    def f(x):
        h = model.a(x)
        with torch.no_grad():
            mean.mul_(0.9).add_(h.mean(0) * 0.1)
        return model.b(h - mean)

    y = wrap(f)(x)
    y.square().sum().backward()
    return {"y": y, "mean": mean, **gradients(model, x=x)}


@case()
def intermediate_is_written(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        h = model.a(x) * 1
        h[:, :4] *= 2
        h.add_(x.sum())
        return model.b(h.sin())

    y = wrap(f)(x)
    y.sum().backward()
    return {"y": y, **gradients(model, x=x)}


@case()
def parts_are_written_into_a_new_tensor(wrap):
    x, w = leaf(4, 8), leaf(4, 8, seed=4)

    def f(x, w):
        out = torch.zeros(8, 8)
        out[:4] = x * w
        out[4:] = w.exp()
        return out.sin()

    y = wrap(f)(x, w)
    y.sum().backward()
    return {"y": y, **gradients(x=x, w=w)}


@case()
def saved_input_is_written_before_the_backward(wrap):
    x = leaf(4, 8)
    h = x * 1
    y = wrap(lambda h: h.square().sin())(h)
    with torch.no_grad():
        h.add_(1)
    return {"refused": flags(_refuses_backward(y))}


@case()
def what_was_saved_outside_is_written_inside(wrap):
    x, w = leaf(4, 8, grad=False), leaf(8, seed=4)
    y = x * w
    wrap(lambda x: x.mul_(2) + 1)(x)
    return {"refused": flags(_refuses_backward(y))}


def _refuses_backward(y):
    try:
        y.sum().backward()
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    return False


@case()
def a_write_into_a_result_that_nothing_keeps(wrap):
    model, x = Mlp(), leaf(4, 8)

    def f(x):
        h = model(x)
        shifted = h + 1
        return shifted, F.layer_norm(shifted * 2, (8,)), torch.sin(shifted - 1)

    shifted, normed, wave = wrap(f)(x)
    shifted.mul_(3)
    (shifted.sum() + normed.square().sum() + wave.sum()).backward()
    return {"shifted": shifted, "normed": normed, **gradients(model, x=x)}


@case()
def results_are_written_after_the_call(wrap):
    model, x, large = Mlp(), leaf(2, 4, 8), leaf(512, 600)
    y, z = wrap(lambda x, large: (model.a(x), 3 * large))(x, large)
    y.mul_(2)
    z[0] = 0
    (y.square().sum() + z.square().sum()).backward()
    return {"y": y, "z": z, **gradients(model, x=x, large=large)}


@case()
def inputs_are_pieces_of_one(wrap):
    w, x = leaf(8, 24), leaf(4, 8, seed=2)
    q, k, v = (x @ w).chunk(3, -1)
    y = wrap(lambda q, k, v: torch.softmax(q @ k.t(), -1) @ v)(q, k, v)
    y.square().sum().backward()
    return {"y": y, **gradients(w=w, x=x)}


@case()
def a_view_with_a_history_comes_back_as_another(wrap):
    x, w = leaf(4, 8), leaf(8, seed=4)
    start = (x * 2)[1:]
    y, view = wrap(lambda v, w: (v * w, v.t()[:4]))(start, w)
    (y.sum() + view.square().sum()).backward()
    return {"y": y, "view": view, "same": flags(view._base is start._base), **gradients(x=x, w=w)}


@case()
def a_view_with_a_history_is_written(wrap):
    """Its base is written, too, and gets the history of what was written."""
    x, w = leaf(4, 8), leaf(8, seed=4)
    base = x * 2

    def f(v, w):
        v.mul_(w)
        return v.sin()

    y = wrap(f)(base[1:3], w)
    (y.sum() + base.square().sum()).backward()
    return {"y": y, "base": base, **gradients(x=x, w=w)}


@case()
def a_view_of_what_has_no_history_is_written(wrap):
    base, w = torch.zeros(4, 8), leaf(8, seed=4)

    def f(v, w):
        v.add_(w)
        return v.sin()

    y = wrap(f)(base[1:3], w)
    (y.sum() + base.square().sum()).backward()
    return {"y": y, "base": base, **gradients(w=w)}
