"""A register of scenarios: several calls with changes in between, told the same in eager and captured."""

import contextlib
import io

import torch

from tests.capture.bytecode.running import Captured, assert_same


class Scenarios(dict):
    """name -> a function that gets `run`, makes what it needs, and returns everything that it saw.

    ``run(f)`` is f itself at first, then f behind its own capture.
    """

    def scenario(self, function):
        assert function.__name__ not in self, f"two scenarios are called {function.__name__}"
        self[function.__name__] = function
        return function

    def check(self, name, **options):
        """What was seen both ways is the same. Returns what was captured."""
        made = []

        def run(function):
            made.append(Captured(function, **{"most_entries": 64, **options}))
            return made[-1]

        with contextlib.redirect_stdout(io.StringIO()) as printed:
            torch.manual_seed(3)
            expected = self[name](lambda function: function)
        with contextlib.redirect_stdout(io.StringIO()) as also_printed:
            torch.manual_seed(3)
            got = self[name](run)
        assert_same(got, expected)
        assert also_printed.getvalue() == printed.getvalue()
        failed = [event.text for one in made for event in one.events if "capture itself failed" in event.text]
        assert not failed, failed
        return made


def tell(function, *args, **kwargs):
    """What a call gives, or the type, arguments and causes of what it raises."""
    try:
        return "value", function(*args, **kwargs)
    except Exception as error:
        causes, one = [], error
        while one is not None:
            causes.append((type(one).__name__, str(one), one.__suppress_context__))
            one = one.__cause__ or one.__context__
        return "raises", causes
