"""Errors and interrupts in code that runs captured are eager's own, with its frames, and leave nothing behind."""

import signal
import traceback

import pytest
import torch

import longhand
from longhand.capture.bytecode.hook import frame_hook
from tests.longhand.compiled_objects import agree, compiled, double_sine

pytestmark = pytest.mark.usefixtures("one_cache", "fresh")


def shape_error(x):
    y = x * 2
    return y @ torch.ones(5, 5)


def key_error(x):
    table = {"a": 1}
    y = x.sin() + 1
    return y * table["b"]


class Refusal(ValueError):
    pass


def own_error(x):
    y = x.cos() * 2
    if y.shape[0] == 3:
        raise Refusal("three", y.shape[0])
    return y


def nested_error(x):
    return own_error(x.exp()) + 1


def caught_error(x):
    try:
        return own_error(x) + 1
    except Refusal as error:
        raise LookupError("was refused") from error


@pytest.mark.parametrize("function", [shape_error, key_error, own_error, nested_error, caught_error])
@pytest.mark.parametrize("turns", [1, 2])
def test_errors_are_eagers(function, turns, monkeypatch):
    monkeypatch.delenv("LONGHAND_DEBUG", raising=False)
    x = torch.randn(3, 6)
    with pytest.raises(Exception) as eager:
        function(x)
    run = compiled(function)
    for _ in range(turns):
        with pytest.raises(type(eager.value)) as found:
            run(x)
    assert type(found.value) is type(eager.value) and found.value.args == eager.value.args
    assert places(found.value) == places(eager.value)
    assert type(found.value.__cause__) is type(eager.value.__cause__)
    if eager.value.__cause__ is not None:
        causes = [traceback.extract_tb(e.value.__cause__.__traceback__) for e in (found, eager)]
        assert [(frame.name, frame.lineno) for frame in causes[0]] == [(f.name, f.lineno) for f in causes[1]]


def places(error):
    """(function, line) of each frame below the test's own, as a traceback prints them; a line counts once."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    assert all(frame.filename == __file__ for frame in frames), frames
    return list(dict.fromkeys((frame.name, frame.lineno) for frame in frames))


def test_all_frames_with_debug(monkeypatch):
    monkeypatch.setenv("LONGHAND_DEBUG", "1")
    with pytest.raises(Refusal) as found:
        compiled(nested_error)(torch.randn(3, 6))
    files = {frame.filename for frame in traceback.extract_tb(found.value.__traceback__)}
    assert len(files) > 1


def test_an_interrupt_while_capturing_leaves_everything_as_it_was(monkeypatch):
    from longhand.compiled import from_bytecode

    real = from_bytecode.longhand_backend

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(from_bytecode, "longhand_backend", interrupted)
    run = compiled(double_sine)
    with pytest.raises(KeyboardInterrupt):
        run(torch.randn(3))
    assert frame_hook().pause() is None and torch.is_grad_enabled()
    monkeypatch.setattr(from_bytecode, "longhand_backend", real)
    longhand.reset()
    agree(compiled(double_sine), double_sine)
    agree(run.__wrapped__, double_sine)


@pytest.fixture
def interrupts():
    """SIGINT raises KeyboardInterrupt, also in a process that was started in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_while_running():
    def interrupted(x):
        y = x.sin() * 2
        signal.raise_signal(signal.SIGINT)
        return y + 1

    run = compiled(interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run(torch.zeros(3))
    assert frame_hook().pause() is None
    agree(compiled(double_sine), double_sine)
