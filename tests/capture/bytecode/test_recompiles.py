"""How often code is captured again: sizes that change, marked sizes, 0 and 1, the limit and what comes after it."""

import warnings

import pytest
import torch

import longhand
from longhand.errors import EagerWarning
from tests.capture.bytecode import running


def of_rows(n_rows):
    return torch.linspace(-1, 1, n_rows * 3).reshape(n_rows, 3)


def scaled_by_rows(x):
    return (x * 2).sum(0) * x.shape[0]


def called(captured, *sizes):
    """Calls with these numbers of rows; how many graphs there are then."""
    for n_rows in sizes:
        x = of_rows(n_rows)
        assert torch.equal(captured(x), scaled_by_rows(x)), n_rows
    return captured.count("graph")


def test_static_at_first_then_dynamic(hook):
    captured = running.Captured(scaled_by_rows)
    assert called(captured, 5, 5) == 1
    assert called(captured, 7, 9, 11, 5) == 2


def test_dynamic_from_the_start(hook):
    assert called(running.Captured(scaled_by_rows, dynamic=True), 5, 7, 9) == 1


def test_never_dynamic(hook):
    assert called(running.Captured(scaled_by_rows, dynamic=False), 5, 7, 9, 5, 7) == 3


def test_sizes_stay_known_where_gradients_flow(hook):
    """A backward pass is made ahead of time for known sizes: with symbols the graph would run in eager."""
    captured = running.Captured(scaled_by_rows)
    for n_rows in (5, 7, 9, 7):
        captured(of_rows(n_rows).requires_grad_()).sum().backward()
    assert captured.count("graph") == 3
    assert called(captured, 5, 7, 9, 11) == 4  # without gradients sizes are symbols


@pytest.mark.parametrize("size", [0, 1])
def test_zero_and_one_are_specialized(hook, size):
    captured = running.Captured(scaled_by_rows, dynamic=True)
    assert called(captured, 5, 7) == 1
    assert called(captured, size, size) == 2
    assert called(captured, 9, size) == 2


def test_a_marked_size(hook):
    captured = running.Captured(scaled_by_rows)
    x = of_rows(5)
    longhand.mark_dynamic(x, 0)
    assert torch.equal(captured(x), scaled_by_rows(x))
    assert called(captured, 7, 9) == 1


def test_equal_sizes_are_one_until_they_differ(hook):
    def product(x, y):
        return x.sum(0) * x.shape[0] + y.sum(0)

    captured = running.Captured(product, dynamic=True)
    for rows in ((5, 5), (7, 7), (5, 7), (9, 4)):
        pair = of_rows(rows[0]), of_rows(rows[1])
        assert torch.equal(captured(*pair), product(*pair))
    assert captured.count("graph") == 2


def test_a_branch_on_a_size_is_a_guard(hook):
    def chosen(x):
        return x.sum(0) if x.shape[0] % 2 else x.prod(0)

    captured = running.Captured(chosen, dynamic=True)
    for n_rows in (5, 7, 8, 9, 12):
        assert torch.equal(captured(of_rows(n_rows)), chosen(of_rows(n_rows)))
    assert captured.count("graph") == 2


def test_the_limit(hook):
    """Eight graphs, then eager with one warning; what was captured goes on being used."""

    def times(x, n):
        return x * n

    captured = running.Captured(times)
    x = of_rows(2)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for n in range(12):
            assert torch.equal(captured(x, float(n)), x * n)
    assert captured.count("graph") == 8
    (warning,) = [str(one.message) for one in told if "longhand" in str(one.message)]
    assert "times" in warning and "compiled 8 times" in warning and __file__ in warning
    assert torch.equal(captured(x, 3.0), x * 3) and captured.count("graph") == 8


def test_each_recompilation_names_what_failed(hook):
    def times(x, n):
        return x * n

    captured = running.Captured(times)
    captured(of_rows(2), 2.0)
    captured(of_rows(2), 3.0)
    captured(of_rows(2).double(), 3.0)
    first, second = [event.text for event in captured.events if event.kind.value == "recompile"]
    assert "L['n'] == 2.0" in first and "L['x']: torch.float32" in second


def halved(x, factor):
    return x * factor


def told_of_recompiling(function, *calls):
    """What is told of each compilation but the first."""
    captured = running.Captured(function)
    for args in calls:
        captured(*args)
    return [event.text.partition("): ")[2] for event in captured.events if event.kind.value == "recompile"]


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        (
            [(of_rows(4), 2.0), (of_rows(5), 2.0)],
            "L['x']: size 4 in dimension 0 is 5: longhand.mark_dynamic(x, 0) before the first call, or dynamic=True, "
            "spares this",
        ),
        (
            [(of_rows(4), 2.0), (of_rows(1), 2.0)],
            "L['x']: size 4 in dimension 0 is 1; sizes of 0 and 1 are compiled for themselves",
        ),
        ([(of_rows(4), 2.0), (of_rows(4)[0], 2.0)], "L['x'] had 2 dimensions and has 1"),
        (
            [(of_rows(4), 2.0), (of_rows(4), 0.5)],
            "L['factor'] == 2.0, and is 0.5 here: a number is part of the code; give it as a tensor",
        ),
        ([(of_rows(4), 2.0), (of_rows(4).double(), 2.0)], "L['x']: torch.float32"),
    ],
)
def test_a_recompilation_names_what_changed_and_the_remedy(hook, calls, told):
    assert told_of_recompiling(halved, *calls) == [told]


class Affine(torch.nn.Linear):
    """A layer of the user's own, with a number of its own."""

    def __init__(self, factor):
        super().__init__(3, 3)
        self.factor = factor

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight, self.bias) * self.factor


class Tenfold(torch.nn.Module):
    """Layers that CPython calls one by one, since the loop breaks: as many modules of one code."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Affine(1 + place / 8) for place in range(10))

    def forward(self, x):
        out, kind = torch.zeros_like(x), torch.arange(len(x)) % len(self.layers)
        for place, (layer, bias) in enumerate(zip(self.layers, range(10), strict=True)):
            rows = (kind == place).nonzero().view(-1)
            out.index_copy_(0, rows, layer(x.index_select(0, rows)) + bias)
        return out


def test_modules_that_share_a_code_have_a_limit_each(hook):
    """torch_geometric's MFConv: a Linear for each degree ran in eager after eight compilations."""
    model = Tenfold()
    captured = running.Captured(model.forward)
    with warnings.catch_warnings(record=True) as told, torch.no_grad():
        warnings.simplefilter("always")
        for rows in (20, 20, 50):
            x = of_rows(rows)
            running.assert_same(captured(x), model(x))
    assert not [str(one.message) for one in told if "compiled 8 times" in str(one.message)]
    assert captured.count("graph") >= len(model.layers)


class Branching(torch.nn.Module):
    """Goes on after a branch on data, with a number of its own."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        half = x / 2
        if half.sum() > 0:
            return half * 2 * self.factor
        return x


def test_what_goes_on_after_a_break_is_counted_for_each_module(hook):
    """Ten modules of one class, as the experts of ten layers: none has been compiled often."""
    layers = [Branching(float(number)) for number in range(1, 11)]

    def all_of_them(x):
        return [layer(x) for layer in layers]

    captured = running.Captured(all_of_them)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            assert [one[0, 0].item() for one in captured(torch.ones(2, 3))] == list(range(1, 11))
    assert not [str(one.message) for one in told if "compiled 8 times" in str(one.message)]


@pytest.mark.parametrize("before", ["", "layer = 3.0"])
@pytest.mark.parametrize("result", ["made", "tuple(made)[::-1]", "(made, layer)"])
def test_a_comprehension_whose_turns_break_gives_its_name_back(hook, before, result):
    """CPython 3.12 runs it in its function's frame: what its variable held before, or that it held nothing, is kept."""
    if "layer" in result and not before:
        before = "layer = x.sum()"
    lines = [
        before or "pass",
        "made = sorted([len(layers), *[layer(x) for layer in layers]])",
        f"return {result}",
    ]
    text = "def all_of_them(x):\n" + "".join(f"    {line}\n" for line in lines)
    namespace = {"layers": [Branching(float(number)) for number in range(1, 11)], "sorted": list}
    exec(text, namespace)
    captured, x = running.Captured(namespace["all_of_them"]), torch.ones(2, 3)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            running.assert_same(captured(x), namespace["all_of_them"](x))
    assert not [str(one.message) for one in told if "compiled 8 times" in str(one.message)]


SETTINGS = {f"setting_{place}": place for place in range(12)}


def setting(name):
    return SETTINGS[name] + 1


def test_what_does_nothing_with_tensors_is_left_without_a_word_when_it_changes_often(hook):
    """A graph that holds nothing is not missed: CPython is as fast, and calls from there are looked at."""
    captured = running.Captured(setting)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, place in SETTINGS.items():
            assert captured(name) == place + 1
        assert captured("setting_3") == 4


def through_setting(name, x):
    return scaled_by_rows(x), setting(name)


def test_graphs_that_change_often_are_still_told(hook):
    captured = running.Captured(through_setting, dynamic=False)
    x = of_rows(3)
    with pytest.warns(EagerWarning, match="compiled 8 times"):
        for name, place in SETTINGS.items():
            rows, number = captured(name, x)
            assert number == place + 1 and torch.equal(rows, scaled_by_rows(x))


class Settings:
    """A configuration as transformers': what is not there is looked for once more, which breaks the graph."""

    def __init__(self):
        self.sizes = {"dim": 4}

    def __getattribute__(self, key):
        try:
            return super().__getattribute__(key)
        except AttributeError:
            print(end="")
            return super().__getattribute__("sizes").get(key, len(key))


def asked(settings, name):
    print(end="")
    return getattr(settings, name)


def test_a_configuration_that_is_asked_for_much_is_left_without_a_word(hook):
    captured = running.Captured(asked)
    settings = Settings()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in SETTINGS:
            assert captured(settings, name) == len(name)
