"""A unit that raises what eager does not is told once, by its line, and is never called again; no value is lost."""

import re
import time
import warnings

import pytest
import torch
from torch import nn

import longhand
from longhand.errors import EagerWarning

pytestmark = pytest.mark.usefixtures("one_cache", "fresh")

BOTH = pytest.mark.parametrize("frontend", ["bytecode", "dynamo"])


def compiled(original, folder, frontend="bytecode", **options):
    if frontend == "dynamo":
        return torch.compile(original, backend="longhand", options={"out": str(folder), **options})
    return longhand.compile(original, frontend="bytecode", options={"out": str(folder), **options})


def sabotage(folder, file="model.py", pattern=r"(?m)^( +)return ", text=r"\1undefined_name()\n\1return "):
    """Edits a written unit as a person could; returns the file."""
    (path,) = folder.glob(f"*/{file}")
    before = path.read_text()
    after = re.sub(pattern, text, before)
    assert after != before
    path.write_text(after)
    longhand.reset()
    return path


def softmax(x):
    return torch.softmax(x * 2 + 1, dim=-1)


def broken(tmp_path, frontend, function=softmax, args=None, **options):
    """A compiled function whose unit raises a NameError."""
    args = (torch.randn(3, 5),) if args is None else args
    from longhand.compiled.backend import number_from_one

    compiled(function, tmp_path, frontend)(*args)
    sabotage(tmp_path)
    number_from_one(tmp_path)
    return compiled(function, tmp_path, frontend, **options)


@BOTH
def test_it_is_told_once_with_its_line_and_never_tried_again(tmp_path, frontend):
    x = torch.randn(3, 5)
    run = broken(tmp_path, frontend)
    with pytest.warns(
        EagerWarning, match=r"NameError: .*undefined_name.*model\.py:\d+.*LONGHAND_STRICT=1"
    ) as told:
        torch.testing.assert_close(run(x), softmax(x))
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            torch.testing.assert_close(run(x), softmax(x))


@BOTH
@pytest.mark.parametrize("by", ["option", "environment"])
def test_strict_raises(tmp_path, frontend, by, monkeypatch):
    options = {"strict": True} if by == "option" else {}
    if by == "environment":
        monkeypatch.setenv("LONGHAND_STRICT", "1")
    run = broken(tmp_path, frontend, **options)
    for _ in range(2):
        with pytest.raises(Exception, match=r"undefined_name.*model\.py"):
            run(torch.randn(3, 5))


@BOTH
def test_what_the_failing_call_changed_is_taken_back(tmp_path, frontend):
    def step(x, total):
        total.add_(x)
        return nn.functional.dropout(x * 2, 0.5) + total.sum()

    def call(function, total):
        torch.manual_seed(1)
        return function(torch.ones(4, 6), total)

    args = (torch.ones(4, 6), torch.zeros(4, 6))
    run = broken(tmp_path, frontend, step, args)
    ours, theirs = torch.zeros(4, 6), torch.zeros(4, 6)
    with pytest.warns(EagerWarning, match="undefined_name"):
        result = call(run, ours)
    torch.testing.assert_close(result, call(step, theirs))
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(call(run, ours), call(step, theirs))
    torch.testing.assert_close(ours, theirs)


def test_what_eager_raises_too_leaves_the_unit_alone(tmp_path):
    table = torch.randn(7, 4)

    def look_up(positions):
        return torch.nn.functional.embedding(positions, table) * 2

    run = compiled(look_up, tmp_path)
    good = torch.tensor([1, 2, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(run(good), look_up(good))
        for _ in range(2):
            try:
                result = run(torch.tensor([1, 2, 9]))
            except IndexError:
                continue
            assert result.isnan().any()  # a kernel cannot raise: positions out of range show as NaN
        torch.testing.assert_close(run(good), look_up(good))


def test_a_backward_pass_that_fails_is_told_and_the_next_step_runs_in_eager(tmp_path):
    from longhand.compiled.backend import number_from_one

    layer = nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 6))
    x = torch.randn(5, 6)
    compiled(layer, tmp_path)(x).sum().backward()
    sabotage(
        tmp_path,
        "backward.py",
        r"(?ms)(def backward\(.*?)^( +)return ",
        r"\1\2undefined_name()\n\2return ",
    )
    number_from_one(tmp_path)
    run = compiled(layer, tmp_path)
    with pytest.raises(NameError, match="undefined_name") as raised, pytest.warns(EagerWarning) as told:
        run(x).sum().backward()
    assert len(told) == 1 and "Later calls run in eager" in raised.value.__notes__[0]
    layer.zero_grad()
    run(x).sum().backward()
    gradient = layer[0].weight.grad.clone()
    layer.zero_grad()
    layer(x).sum().backward()
    torch.testing.assert_close(gradient, layer[0].weight.grad)


def test_a_second_backward_is_the_users_error_not_the_units(tmp_path):
    layer = nn.Linear(6, 6)
    run = compiled(nn.Sequential(layer, nn.GELU()), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss = run(torch.randn(5, 6)).sum()
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        run(torch.randn(5, 6)).sum().backward()


def test_a_failed_graph_costs_eager_and_a_few_microseconds(tmp_path):
    x = torch.randn(3, 5)
    run = broken(tmp_path, "bytecode")
    with pytest.warns(EagerWarning):
        run(x)

    def fastest(function):
        times = []
        for _ in range(40):
            start = time.perf_counter()
            for _ in range(50):
                function(x)
            times.append((time.perf_counter() - start) / 50)
        return min(times)

    assert fastest(run) - fastest(softmax) < 15e-6
