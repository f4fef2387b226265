"""Hugging Face models and the listed modules through ``backend="longhand"``: right, and mostly in generated kernels."""

import functools

import pytest
import torch

from benchmarks.hugging_face import MODELS
from longhand.backend import longhand_backend
from longhand.comparison import compare, tensors_by_name
from longhand.factory import Call
from longhand.original import copied, in_float64
from tests.models.modules import MODULES

MIN_SHARE = 0.6


def compiled_and_compared(call):
    """Runs a call through Dynamo in strict mode; the reports of its graphs, and every result compared."""
    torch.compiler.reset()
    reports = []
    backend = functools.partial(longhand_backend, options={"strict": True}, report=reports.append)
    exact, ours = in_float64(call), copied(call)
    with torch.no_grad():
        eager = call.model(*call.args, **call.kwargs)
        reference = exact.model(*exact.args, **exact.kwargs)
        found = torch.compile(ours.model, backend=backend)(*ours.args, **ours.kwargs)
    values = [tensors_by_name("result", tuple_of(value)) for value in (found, eager, reference)]
    assert len(values[0]) == len(values[1])
    return reports, [compare(n, a, b, c) for (n, a), (_, b), (_, c) in zip(*values, strict=True)]


def tuple_of(value):
    return value.to_tuple() if hasattr(value, "to_tuple") else value


def check(name, call, minimum):
    reports, comparisons = compiled_and_compared(call)
    assert reports and all(report.reason is None for report in reports)
    assert all(comparison.is_right for comparison in comparisons), comparisons
    moved = [
        (report.summary.kernel_bytes, report.summary.library_bytes) for report in reports if report.summary
    ]
    ours, theirs = sum(a for a, _ in moved), sum(b for _, b in moved)
    share = ours / (ours + theirs)
    print(
        f"{name}: {share:.0%} of the bytes outside products, convolutions and attention in generated kernels"
    )
    assert share >= minimum


@pytest.fixture(autouse=True)
def fresh_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize("name", sorted(MODULES))
def test_module(name):
    torch.manual_seed(7)
    model, args = MODULES[name]()
    check(name, Call(model, args, {}), MIN_SHARE)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_hugging_face_model(name):
    torch.manual_seed(7)
    check(name, MODELS[name](), 0.0)
