"""In strict mode whatever would run in eager is an error, in every way that it can come to that."""

import warnings

import pytest
import torch

import longhand
from longhand import pipeline
from longhand.errors import CaptureError, EagerWarning, LonghandError, UnitError

STRICT = {"strict": True}


@pytest.fixture(autouse=True)
def _fresh(fresh, one_cache):
    """Nothing is compiled yet."""


def call(function, *args, **settings):
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return longhand.compile(function, options=STRICT, **settings)(*args)


def undefined(x):
    return torch.relu(x) + not_there  # noqa: F821


def doubled(x):
    return torch.softmax(x, -1) * 2


def made_of_text():
    names = {"torch": torch}
    exec(compile("def made(x):\n    return torch.relu(x) * 2", "<attrs generated>", "exec"), names)
    return names["made"]


def test_an_undefined_name_is_the_codes_own_error():
    with pytest.raises(NameError, match="not_there"):
        call(undefined, torch.randn(4))


@pytest.mark.parametrize("stage", ["lower", "schedule", "emit_unit"])
def test_a_stage_that_fails_is_an_error(stage, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("half a kernel")

    monkeypatch.setattr(pipeline, stage, broken)
    with pytest.raises(CaptureError, match="half a kernel"):
        call(doubled, torch.randn(4, len(stage)))


def test_code_of_text_in_no_file_is_an_error():
    made = made_of_text()
    with pytest.raises(CaptureError, match="runs in eager"):
        call(made, torch.randn(4))


def test_a_call_under_a_transform_is_an_error():
    compiled = longhand.compile(doubled, options=STRICT)
    with (
        torch.no_grad(),
        pytest.raises(CaptureError, match=r"would run in eager: a transform of torch\.func"),
    ):
        torch.func.vmap(compiled)(torch.randn(3, 4))


def test_one_compilation_too_many_is_an_error():
    def scaled(x, factor):
        return x * factor

    compiled = longhand.compile(scaled, options=STRICT)
    with torch.no_grad(), pytest.raises(CaptureError, match="was compiled 8 times"):
        for number in range(12):
            compiled(torch.randn(4), number + 0.5)


def test_a_graph_that_longhand_leaves_to_eager_is_an_error():
    def own_modes(x):
        with torch.inference_mode():
            y = x * 2
        return torch.relu(x) + y.clone()

    compiled = torch.compile(own_modes, backend="longhand", options=STRICT)
    with pytest.raises(Exception, match="would run in eager"):
        compiled(torch.randn(4, requires_grad=True))


def test_a_folder_of_ones_own_says_what_it_is_not_for(tmp_path):
    x, y = torch.randn(4, 8), torch.randn(7, 8)
    with torch.no_grad():
        lenient = longhand.compile(doubled, out=tmp_path / "unit")
        lenient(x)
        with pytest.warns(EagerWarning, match=r"x float32 \(4, 8\), not float32 \(7, 8\)") as told:
            torch.testing.assert_close(lenient(y), doubled(y))
            lenient(y)
        assert len([one for one in told if "runs in eager" in str(one.message)]) == 1
        strict = longhand.compile(doubled, out=tmp_path / "unit", options=STRICT)
        strict(x)
        with pytest.raises(UnitError, match="was written for x float32"):
            strict(y)
    assert issubclass(UnitError, LonghandError)
