"""Writes through views, in random programs: the functional graph must do what eager does."""

from __future__ import annotations

import random

import pytest
import torch

import longhand
from longhand.errors import CaptureError

VIEWS = [
    lambda r, t: t.reshape(-1),
    lambda r, t: t.view(t.shape),
    lambda r, t: t.transpose(0, -1) if t.dim() else t.unsqueeze(0),
    lambda r, t: t.permute(*reversed(range(t.dim()))),
    lambda r, t: t[r.randrange(t.shape[0])] if t.dim() > 1 else t.unsqueeze(0),
    lambda r, t: t[:, -1] if t.dim() > 1 else t.unsqueeze(-1),
    lambda r, t: t[1:] if t.dim() and t.shape[0] > 1 else t,
    lambda r, t: t[..., ::2] if t.dim() else t,
    lambda r, t: t.unsqueeze(r.randrange(t.dim() + 1)),
    lambda r, t: t.squeeze(),
    lambda r, t: t.chunk(2, -1)[-1] if t.dim() else t,
    lambda r, t: t.split(1, 0)[0] if t.dim() else t,
    lambda r, t: t.unbind(0)[-1] if t.dim() > 1 else t,
    lambda r, t: t.diagonal() if t.dim() == 2 else t,
    lambda r, t: t.flatten(),
    lambda r, t: t.unfold(0, 2, 2) if t.dim() and t.shape[0] >= 2 else t,
    lambda r, t: t.movedim(0, -1) if t.dim() else t,
    lambda r, t: t.narrow(0, 0, 1) if t.dim() else t,
    lambda r, t: t.detach(),
    lambda r, t: t.contiguous(),
    lambda r, t: t.mT if t.dim() > 1 else t,
    lambda r, t: t.view_as(t),
    lambda r, t: t.clone(),
    lambda r, t: t.to(torch.float32),
    lambda r, t: t.expand(t.shape),
]

WRITES = [
    lambda r, t, o: t.add_(1),
    lambda r, t, o: t.mul_(o.sum()),
    lambda r, t, o: t.copy_(o.mean()),
    lambda r, t, o: t.zero_(),
    lambda r, t, o: t.fill_(r.random()),
    lambda r, t, o: t.sub_(t.clone() * 0.5),
    lambda r, t, o: t.masked_fill_(t > 0, 0.25),
    lambda r, t, o: t.clamp_(min=-0.5),
    lambda r, t, o: t.relu_(),
    lambda r, t, o: torch.add(t, 1, out=t),
    lambda r, t, o: t.index_fill_(0, torch.tensor([0]), 3.0) if t.dim() else t.neg_(),
    lambda r, t, o: t.lerp_(torch.ones_like(t), 0.5),
    lambda r, t, o: t.__ior__(t > 0) if t.dtype is torch.bool else t.exp_().clamp_(max=9),
    lambda r, t, o: t.__setitem__(0, 1.5) if t.dim() else t.sin_(),
    lambda r, t, o: t.index_put_((torch.tensor([0, -1]),), torch.tensor(2.0)) if t.dim() else t.cos_(),
]


def program(seed: int):
    """A function of two tensors: views of views, writes into some, a few results that may share memory."""

    def run(x, y):
        choose = random.Random(seed)
        tensors = [x, y, x * 2]
        for _ in range(choose.randrange(3, 10)):
            tensor = choose.choice(tensors)
            if choose.random() < 0.6:
                tensors.append(choose.choice(VIEWS)(choose, tensor))
            elif choose.random() < 0.8:
                choose.choice(WRITES)(choose, tensor, choose.choice(tensors))
            else:
                tensors.append(tensor + choose.choice(tensors).mean())
        return tuple(choose.sample(tensors, 3))

    return run


@pytest.mark.parametrize("seed", range(80))
def test_random_views_and_writes(captured, seed):
    graph = captured(program(seed), (torch.randn(4, 6), torch.randn(3, 4, 2)))
    for node in graph.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            assert not node.target._schema.is_mutable


def test_metadata_writes(captured):
    def run(x):
        y = x * 2
        z = y.unsqueeze_(0)
        y.transpose_(1, 2)
        return z.add_(1), y.squeeze_()

    captured(run, (torch.randn(2, 3),))


@pytest.mark.parametrize("kind", ["dropout", "alpha_dropout", "feature_dropout"])
def test_a_dropout_that_drops_nothing_is_its_argument(captured, kind):
    """As in eager, which returns the very tensor: a call that is left in would be taken for fresh memory."""

    def run(x):
        return getattr(torch, kind)(x * 2, 0.0, True) * 3

    graph = captured(run, (torch.randn(2, 3),))
    assert not any(kind in str(node.target) for node in graph.graph.nodes)


def test_a_write_into_an_argument_of_another_dtype_is_cast(captured):
    def run(x, counts):
        counts.copy_(x)
        x.mul_(counts)
        return counts + 1

    captured(run, (torch.randn(3) * 5, torch.zeros(3, dtype=torch.int64)))


def test_a_custom_op_that_writes_works_on_a_clone(captured):
    @torch.library.custom_op("longhand_test::bump", mutates_args=("x",))
    def bump(x: torch.Tensor, by: float) -> None:
        x.add_(by)

    def run(x):
        y = x * 1
        bump(y, 2.0)
        bump(x, 3.0)
        return y + x

    graph = captured(run, (torch.randn(3),))
    assert [mutation.input_node for mutation in graph.mutations] == ["x"]


def test_a_custom_op_stays_whole(captured):
    @torch.library.custom_op("longhand_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(lambda x: torch.empty_like(x))
    graph = captured(lambda x: twice(x) + 1, (torch.randn(3),))
    assert any(str(node.target) == "longhand_test.twice.default" for node in graph.graph.nodes)


def test_as_strided_reads_what_eager_has_in_memory(captured):
    def run(x):
        y = x.t().contiguous()
        windows = y.as_strided((3, 2), (2, 1), 1)
        z = y.clone()
        z.as_strided((2,), (3,), 1).add_(5)
        return windows * 2, z, x.t().clone(memory_format=torch.contiguous_format).as_strided((2, 2), (1, 3))

    captured(run, (torch.randn(4, 3),))


def test_as_strided_of_a_view_reads_the_memory_behind_it(captured):
    """Longformer's chunks that overlap: heads and positions were transposed before."""

    def run(x):
        y = (x * 2).transpose(0, 1).reshape(3, 2, 2).permute(1, 0, 2)
        chunks = y.as_strided((2, 3, 2), (2, 2, 1))
        last = (x + 1)[2:].as_strided((2,), (3,))
        z = x.clone().t()
        z[1:].as_strided((2,), (5,)).mul_(3)
        return chunks + 1, last, z, x[1:, 1].as_strided((3,), (1,), 2) * 1

    captured(run, (torch.randn(4, 3),))


def test_as_strided_of_memory_with_gaps_is_refused(captured):
    def run(x):
        return torch.empty_strided((2, 2), (4, 1)).copy_(x).as_strided((4,), (1,)) * 1

    with pytest.raises(CaptureError, match="gaps or overlaps"):
        captured(run, (torch.randn(2, 2),))


def test_complex_views(captured):
    def run(x):
        z = torch.view_as_complex(x * 1)
        parts = torch.view_as_real(z * 2)
        parts[..., 0] += 1
        return parts, z.real + 1, z.imag * 2

    captured(run, (torch.randn(3, 2),))


def test_as_strided_in_place_that_moves_no_element(captured):
    """What pooling to one pixel does to a tensor of channels-last."""

    def pool(x):
        mean = x.mean((-1, -2), keepdim=True)
        mean.as_strided_((2, 3, 1, 1), (3, 1, 3, 3))
        return mean * 2

    captured(pool, (torch.randn(2, 3, 4, 5),))


def test_as_strided_in_place_that_moves_elements_is_refused(captured):
    def swap(x):
        y = x.clone()
        y.as_strided_((3, 2), (1, 3))
        return y * 2

    with pytest.raises(CaptureError, match="as_strided_"):
        captured(swap, (torch.randn(2, 3),))


WRITTEN = {
    "pow_.Scalar": lambda x, y: x.pow_(3),
    "pow_.Tensor": lambda x, y: x.pow_(y),
    "float_power_": lambda x, y: x.double().float_power_(2),
    "floor_divide_": lambda x, y: x.floor_divide_(y),
    "ldexp_": lambda x, y: x.ldexp_(y),
    "fill_diagonal_": lambda x, y: x.fill_diagonal_(7.0),
    "__lshift__": lambda x, y: x.long().__ilshift__(1),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_writes_whose_functional_overload_is_called_otherwise(captured, name):
    def run(x, y):
        z = x.clone()
        return WRITTEN[name](z, y) * 1, z

    captured(run, (torch.rand(4, 3) + 1, torch.rand(4, 3) + 1))


FOREACH = {
    "_foreach_powsum": lambda x, y: torch._foreach_powsum([x, y], 3),
    "_foreach_minimum_": lambda x, y: torch._foreach_minimum_([x, y], [y.clone(), x.clone()]),
    "_foreach_add_": lambda x, y: torch._foreach_add_([x, y], [y.clone(), x.clone()], alpha=2),
    "_foreach_mul_": lambda x, y: torch._foreach_mul_([x[0], y.t()], [2.0, 3.0]),
    "_foreach_addcdiv_": lambda x, y: torch._foreach_addcdiv_([x, y], [y, x], [y + 2, x + 2], [0.5, 0.25]),
    "_foreach_lerp_": lambda x, y: torch._foreach_lerp_([x, y], [y, x], 0.25),
    "_foreach_maximum_": lambda x, y: torch._foreach_maximum_([x, y], 0.5),
    "_foreach_copy_": lambda x, y: torch._foreach_copy_([x, y], [y * 2, x * 3]),
    "_foreach_zero_": lambda x, y: torch._foreach_zero_([x[:, 1:], y]),
    "_foreach_norm": lambda x, y: torch._foreach_norm([x, y], 1),
    "_foreach_pow": lambda x, y: torch._foreach_pow(2.0, [x, y]),
    "_foreach_sqrt": lambda x, y: torch._foreach_sqrt([x, y]),
}


@pytest.mark.parametrize("name", FOREACH)
def test_ops_on_lists_are_ops_on_their_tensors(captured, name):
    def run(x, y):
        results = FOREACH[name](x, y)
        return x + y, [] if name.endswith("_") else list(results)

    graph = captured(run, (torch.rand(3, 3), torch.rand(3, 3)))
    assert not any("_foreach" in str(node.target) for node in graph.graph.nodes)


def test_another_op_that_writes_into_a_list_is_refused(captured):
    def run(x):
        a, b = torch.empty(2), torch.empty(2)
        torch.ops.aten.unbind_copy.int_out(x, 0, out=[a, b])
        return a + b

    with pytest.raises(CaptureError, match="writes into a list of tensors"):
        captured(run, (torch.rand(2, 2),))


def test_a_size_that_torch_computes(tmp_path):
    """``torch.div`` of a size is a tensor; the trace reads it, and writes the number down where it is used."""

    def chunks(x):
        n = torch.div(x.size(1), 4, rounding_mode="trunc")
        parts = x.view(x.size(0), n, 4, x.size(2))
        return torch.einsum("bcxd,bcyd->bcxy", parts, parts)

    x = torch.randn(2, 16, 3)
    longhand.generate(chunks, (x,), out=tmp_path / "unit", device="cpu")
    torch.testing.assert_close(longhand.load(tmp_path / "unit")(x), chunks(x))


# Ops that a rule rewrites, by what they make of x (4, 6): every one must be known by eager's memory afterwards.
REWRITTEN = {
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5),
    "addcdiv": lambda x: torch.addcdiv(x, x, x + 9),
    "lerp": lambda x: torch.lerp(x, x * 2, 0.3),
    "softmax": lambda x: torch.softmax(x, -1),
    "to": lambda x: x.to(torch.float64),
    "dropout": lambda x: torch.dropout(x * 2, 0.5, train=False),
    "times one": lambda x: x * 1,
    "clone": lambda x: x.clone(),
    "var": lambda x: torch.var(x, 0, keepdim=True),
    "batch norm": lambda x: torch.nn.functional.batch_norm(x, None, None, training=True),
    "batch norm in eval": lambda x: torch.nn.functional.batch_norm(x, x[0], x[1] ** 2),
    "layer norm": lambda x: torch.nn.functional.layer_norm(x, (6,)),
    "foreach": lambda x: torch._foreach_add([x, x], 1)[0],
    "foreach lerp": lambda x: torch._foreach_lerp([x], [x * 2], 0.3)[0],
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_write_into_a_view_of_what_a_rule_made(captured, name):
    """Such writes went into another tensor, and were lost: addcmul, addcdiv, lerp and training batch norm."""

    def run(x):
        y = REWRITTEN[name](x)
        y[..., ::2] = 1
        y.transpose(0, -1)[1:].mul_(3)
        return y

    captured(run, (torch.randn(4, 6),))


@pytest.mark.parametrize("value", [2, 0.5, -2.7])
def test_a_factor_of_whole_numbers_is_cut_as_in_eager(captured, value):
    """A ValueError of torch's decomposition came of 0.5."""
    x, y = torch.randint(-9, 9, (3, 4)), torch.randint(1, 9, (4,), dtype=torch.int32)
    captured(lambda x, y: torch.addcmul(x, x, y, value=value), (x, y))


def test_an_argument_is_not_turned(tmp_path):
    """The caller's tensor would have to change its shape, which no unit does to it."""

    def turned(x):
        x.t_()
        return x * 2

    with pytest.raises(CaptureError, match="changes how an argument lies"):
        longhand.generate(turned, (torch.ones(2, 3),), out=tmp_path / "unit")
