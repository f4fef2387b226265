"""A text that names a tensor's values is no break until something reads it, and then says what eager's says."""

import logging

import pytest
import torch

from tests.capture.bytecode.running import Captured, assert_same, check, outcome

X = torch.linspace(-2, 2, 6).reshape(2, 3)
LOGGER = logging.getLogger(__name__)


def breaks(captured):
    return [event.text for event in captured.events if event.kind.value in ("break", "skip")]


def test_a_message_that_nobody_reads_is_nothing(hook):
    def f(x):
        y = x * 2
        message = f"{y} of {x.shape}, {y.sum()!r} {y.mean()!s} {y!a}: {x.dtype}"
        LOGGER.debug(message)
        return y + 1, isinstance(message, str), callable(message), message is None

    captured = check(f, (X,))
    assert not breaks(captured)


def test_it_is_returned_as_eager_has_it(hook):
    def f(x):
        y = x * 2
        return y, f"{y} and {y.sum():} {x!r}" + "", [f"{y.sum()}"]

    check(f, (X,), (X + 1,))


def test_it_is_kept_in_an_object(hook):
    def f(x, seen):
        y = x * 2
        seen["text"] = f"{y.max()}"
        return y + 1

    captured = check(f, (X, {}))
    assert not breaks(captured)


def test_a_text_across_a_break(hook, capsys):
    def f(x):
        y = x * 2
        text = f"<{y.sum()}>"
        print(text)
        return y + len(text)

    captured = check(f, (X,))
    assert capsys.readouterr().out.count("<0.0>") == 4
    assert len(breaks(captured)) == 1


@pytest.mark.parametrize("of_input", [True, False])
def test_a_tensor_that_is_written_to_after_its_text_was_made(hook, of_input):
    def f(x):
        y = x if of_input else x * 2
        text = f"{y}"
        y.add_(1)
        return y * 2, text

    check(f, (X,))


def test_statistics_that_a_batch_norm_writes_after_their_text_was_made(hook):
    def f(x, mean, var):
        text = f"{mean}"
        return torch.nn.functional.batch_norm(x, mean, var, training=True), text

    check(f, (X, torch.zeros(3), torch.ones(3)))


def test_tensors_of_inference_mode(hook):
    def f(x):
        text = f"{x}"
        x += 1
        return text, x * 2

    captured = Captured(f)
    with torch.inference_mode():
        for _ in range(2):
            assert_same(captured(X + 0), f(X + 0))


def test_what_a_specification_makes_of_it_is_eagers(hook):
    def one(x):
        return f"{x.sum():.3f}"

    def raises(x):
        return f"{x * 2:.3f}"

    for function in (one, raises):
        captured = Captured(function)
        assert_same(outcome(captured, (X,)), outcome(function, (X,)))


def test_what_cannot_be_made_later_is_a_break_where_it_is_made(hook):
    def f(x):
        y = x * 2
        text = f"{y}"
        y.add_(1)
        return y * 2, text

    captured = check(f, (X,))
    assert len(breaks(captured)) == 1 and captured.count("graph") == 2


def test_what_is_done_with_a_text(hook):
    def f(x):
        text = f"{x.sum()}"
        return text.upper(), text + "!", text == "0.0", text in {"0.0": 1}, bool(text), len(text), text[0]

    check(f, (X,))
