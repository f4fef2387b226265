"""Random programs do the same captured as in eager: results, arguments, exceptions; with several argument sets."""

import contextlib
import copy
import io
import warnings

import pytest
import torch

from tests.capture.bytecode import programs, running

# 2007: an exception leaves a with block in code that starts in the middle of it.
# 4975: a variable of a comprehension is unbound after a break.
SEEDS = (*range(30), 2007, 4975, *range(10_000, 10_040))


def argument_sets(namespace):
    torch.manual_seed(0)
    box = namespace["Box"]
    yield torch.randn(3, 3), torch.randn(3, 3), 2, True, [1, 2, 3], {"k0": 1}, box(torch.ones(3, 3))
    yield torch.randn(3, 3), torch.randn(3, 3), 3, False, [], {}, box(torch.randn(3, 3), [1])
    yield torch.randn(4, 4), torch.randn(4, 4), 2, True, [1, 2, 3], {"k0": 1, "k2": 5}, box(torch.ones(4, 4))


def compare(seed):
    """Runs one program; the number of its graphs and of its breaks."""
    namespace, text = programs.load(seed)
    captured = running.Captured(namespace["program"])
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, args in enumerate(argument_sets(namespace)):
            for attempt in range(2):
                mine, theirs = copy.deepcopy((args, args))[0], copy.deepcopy(args)
                namespace["STATE"].clear()
                expected = running.outcome(namespace["program"], theirs)
                states = list(namespace["STATE"])
                namespace["STATE"].clear()
                got = running.outcome(captured, mine)
                where = f"seed {seed}, arguments {number}, call {attempt}"
                assert got[0] == expected[0], f"{where}: {got} is not {expected}\n{text}"
                assert namespace["STATE"] == states, f"{where}: other calls of noisy()\n{text}"
                try:
                    if got[0] == "raises":
                        assert got == expected
                    else:
                        running.assert_same(got[1], expected[1])
                    running.assert_same(mine, theirs, "arguments")
                except AssertionError as error:
                    raise AssertionError(f"{where}: {error}\n{text}") from None
    return captured


@pytest.mark.parametrize("seed", SEEDS)
def test_random_program(hook, seed):
    captured = compare(seed)
    failed = [event.text for event in captured.events if "capture itself failed" in event.text]
    assert not failed, failed
