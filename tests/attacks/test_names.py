"""Names are data: whatever a state_dict's keys, arguments, classes and locals are called, none is executed or lost."""

import importlib.util
import keyword

import pytest
import torch
from torch import nn

import longhand
from tests.attacks.odd_names import IDENTIFIERS, odd_names

COUNT = 500
IN_CI = 25


class Held(nn.Module):
    """Tensors under given names, in one of the ways in which a module may hold them."""

    def __init__(self, names, kind):
        super().__init__()
        self.kind = kind
        self.names = []
        holder = nn.Module() if kind in ("inner parameter", "module") else self
        modules = {}
        for name in names:
            try:
                if kind == "buffer":
                    holder.register_buffer(name, torch.randn(4))
                elif kind == "key":
                    nn.ModuleDict({name: nn.Module()})
                    modules[name] = nn.LayerNorm(4)
                elif kind == "module":
                    holder.add_module(name, nn.LayerNorm(4))
                else:
                    holder.register_parameter(name, nn.Parameter(torch.randn(4)))
            except KeyError:  # torch has something of that name itself
                continue
            self.names.append(name)
        if kind == "key":
            self.held = nn.ModuleDict(modules)
        elif holder is not self:
            self.held = holder

    def forward(self, x):
        for name in self.names:
            if self.kind == "key":
                x = x + self.held[name].weight
            elif self.kind == "module":
                x = x + getattr(self.held, name).weight
            else:
                x = x + getattr(self.held if self.kind == "inner parameter" else self, name)
        return x


def randomized(model):
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.normal_()
    return model.eval()


def check(model, args, folder, **options):
    """The unit takes the model's state_dict and computes what it does; nothing of the names ran."""
    with torch.no_grad():
        longhand.generate(model, args, out=folder, device="cpu", **options)
        unit = longhand.load(folder)()
        unit.load_state_dict(model.state_dict())
        assert list(unit.state_dict()) == list(model.state_dict())
        torch.testing.assert_close(unit(*args), model(*args))
    assert not list(folder.parent.rglob("EXECUTED*"))


KINDS = ("parameter", "inner parameter", "buffer", "module", "key")
CHUNKS = [
    (kind, start)
    for place, kind in enumerate(KINDS)
    for start in range(0, COUNT, IN_CI)
    # Each name once in CI's share or the sweep's, as another kind each time.
    if (start // IN_CI) % len(KINDS) == place
]


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        pytest.param(*one, marks=() if one[1] < 2 * IN_CI else pytest.mark.slow, id=f"{one[0]} {one[1]}")
        for one in CHUNKS
    ],
)
def test_state_dict_keys(kind, start, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = odd_names(COUNT)[start : start + IN_CI]
    check(randomized(Held(names, kind)), (torch.randn(2, 4),), tmp_path / "unit")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_word_as_each_kind(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(randomized(Held(odd_names(150), kind)), (torch.randn(2, 4),), tmp_path / "unit")


def defined(text, tmp_path, name="odd_source"):
    """A module of this text, from a file, so that its statements can be quoted."""
    path = tmp_path / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LOCALS = [word for word in IDENTIFIERS if word.isidentifier() and not keyword.iskeyword(word)]


def test_locals_and_arguments(tmp_path, monkeypatch):
    """As locals, as arguments, and as keyword arguments of the unit's call."""
    monkeypatch.chdir(tmp_path)
    lines = [
        "import torch as t",
        "class Model(t.nn.Module):",
        "    def forward(self_, x, {}):".format(", ".join(LOCALS[:8])),
    ]
    before = "x"
    for word in (*LOCALS[:8], *LOCALS[12:]):
        if word in ("t", "x"):
            continue
        lines.append(f"        {word} = t.sin({before}) + {word if word in LOCALS[:8] else 1}")
        before = word
    model = defined("\n".join([*lines, f"        return {before}"]), tmp_path).Model()
    args = [torch.randn(2, 4) for _ in range(9)]
    with torch.no_grad():
        longhand.generate(model, tuple(args), out=tmp_path / "unit", device="cpu")
        unit = longhand.load(tmp_path / "unit")()
        torch.testing.assert_close(unit(*args), model(*args))


@pytest.mark.parametrize(
    "word",
    [
        *("torch_", "kernels", "__x"),
        *(pytest.param(word, marks=pytest.mark.slow) for word in ("torch", "F", "launch", "dtype", "ctx")),
    ],
)
def test_one_argument(word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = f"import torch as t\ndef function({word}, y):\n    {word} = t.relu({word}) * y\n    return {word} + 1\n"
    function = defined(text, tmp_path).function
    args = (torch.randn(3), torch.randn(3))
    with torch.no_grad():
        longhand.generate(function, args, out=tmp_path / "unit", device="cpu")
        unit = longhand.load(tmp_path / "unit")
        torch.testing.assert_close(unit(*args), function(*args))


def test_keys_of_dicts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys = [*odd_names(COUNT)[-24:], 'a"b', "c\\", "d\n"]

    def function(batch):
        return {key: value + 1 for key, value in batch.items()}

    batch = {key: torch.randn(3) for key in keys}
    with torch.no_grad():
        longhand.generate(function, (batch,), out=tmp_path / "unit", device="cpu")
        found = longhand.load(tmp_path / "unit")(batch)
    assert list(found) == keys
    torch.testing.assert_close(found, function(batch))
    assert not list(tmp_path.rglob("EXECUTED*"))


CLASSES = [
    "Weights",
    "torch",
    "nn",
    "a b",
    'M"""\nopen("EXECUTED", "w")\n"""',
    "class",
    "kernels",
    "buffer",
    "1",
    "",
]


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.randn(4))

        def forward(self, x):
            return torch.tanh(x * self.scale)

    Plain.__name__ = Plain.__qualname__ = name
    check(Plain().eval(), (torch.randn(2, 4),), tmp_path / "unit")


def test_names_are_told_apart():
    """The rule itself: what is handed out is a name to Python, and no macro to C."""
    from longhand.schedule.names.words import RESERVED_IN_KERNEL, KernelScope, is_attribute, own_name

    for name in odd_names(COUNT):
        assert own_name(name).isidentifier() and not keyword.iskeyword(own_name(name))
        if is_attribute(name):
            exec(
                f"class C:\n def f(self): self.{name} = 1\nc = C(); c.f(); assert c.__dict__ == {{{name!r}: 1}}",
                {},
            )
    scope = KernelScope(RESERVED_IN_KERNEL)
    given = [scope.pick([name]) for name in odd_names(COUNT)]
    assert len(set(given)) == COUNT
    assert all(word.isidentifier() and word.isascii() for word in given)
    assert not {"NULL", "EOF", "INFINITY", "NAN", "M_PI", "errno", "GRAIN", "size_t"} & set(given)
