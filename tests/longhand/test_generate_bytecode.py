"""Units from longhand's own capture: the same files as through the other doors, breaks told, several graphs."""

import functools
import sys

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import longhand
from examples import attention, gpt, llama_block
from longhand.cli.commands import commands
from longhand.errors import CaptureError, GraphBreakError, OptionError, OutputError, UnitError
from longhand.staleness.file_check import Staleness
from longhand.staleness.model_check import check
from longhand.verify.checking import check_kernels

pytestmark = pytest.mark.usefixtures("hook")


def small_gpt():
    model = gpt.GPT(n_tokens=211, max_seq=32, dim=48, n_heads=4, n_layers=3)
    return model.eval(), (torch.randint(211, (2, 24)),)


def small_llama():
    return llama_block.small()


def text_of(folder):
    """The unit's text by path, without what longhand keeps for itself."""
    found = {}
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if path.suffix in (".py", ".cpp", ".h") and ".base" not in place.parts:
            found[place.as_posix()] = path.read_text()
    return found


EXAMPLES = {"attention": attention.small, "gpt": small_gpt, "llama_block": small_llama}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_doors_write_the_same_text(name, tmp_path, monkeypatch):
    monkeypatch.setenv("LONGHAND_CACHE_DIR", str(tmp_path / "cache"))
    torch.manual_seed(0)
    model, args = EXAMPLES[name]()
    with torch.no_grad():
        for frontend in ("export", "bytecode"):
            longhand.generate(model, args, out=tmp_path / frontend, frontend=frontend)
        for frontend in ("dynamo", "bytecode"):
            torch.compiler.reset()
            options = {"out": str(tmp_path / f"compile_{frontend}"), "strict": True}
            compiled = longhand.compile(model, frontend=frontend, options=options)
            torch.testing.assert_close(compiled(*args), model(*args), rtol=2e-4, atol=2e-4)
    exported = text_of(tmp_path / "export")
    assert text_of(tmp_path / "bytecode") == exported
    (dynamo,) = (tmp_path / "compile_dynamo").iterdir()
    (bytecode,) = (tmp_path / "compile_bytecode").iterdir()
    assert text_of(dynamo) == text_of(bytecode)
    # A graph handed over by a running compile returns a tuple; all else is the same.
    kernels = {path: text for path, text in exported.items() if path.startswith("kernels/")}
    assert kernels and kernels == {p: t for p, t in text_of(bytecode).items() if p.startswith("kernels/")}


def test_readme_tells_the_values_that_the_code_read(tmp_path):
    model, args = small_gpt()
    longhand.generate(model, args, out=tmp_path / "unit", frontend="bytecode")
    readme = (tmp_path / "unit" / "README.md").read_text()
    assert "- `blocks.*.attn`: n_heads = 4" in readme
    assert "`blocks.*.ln_1`, `blocks.*.ln_2`, `ln_f`: eps = 1e-05, normalized_shape[0] = 48" in readme


def test_readme_of_a_compiled_graph_tells_them_too(tmp_path):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = 3.0

        def forward(self, x, is_bounded):
            x = x * self.scale
            return x.tanh() if is_bounded else x

    options = {"out": str(tmp_path / "units"), "strict": True}
    with torch.no_grad():
        longhand.compile(Scaled().eval(), frontend="bytecode", options=options)(torch.randn(4, 5), True)
    (unit,) = (tmp_path / "units").iterdir()
    readme = (unit / "README.md").read_text()
    assert "scale = 3.0" in readme and "is_bounded = True" in readme


def test_a_unit_knows_its_frontend_and_is_current(tmp_path):
    torch.manual_seed(0)
    longhand.generate(
        *attention.small(), out=tmp_path / "unit", frontend="bytecode", factory="examples.attention:small"
    )
    assert check(tmp_path / "unit").staleness is Staleness.CURRENT
    assert '"frontend": "bytecode"' in (tmp_path / "unit" / "longhand.lock").read_text()
    assert all(row.is_right for row in check_kernels(tmp_path / "unit").kernels)


class Results(nn.Module):
    """Keyword arguments, containers, a tensor given back as it came, a constant, a mutated buffer."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6))
        self.unused = nn.Parameter(torch.randn(2))
        self.register_buffer("seen", torch.zeros(6))
        self.register_buffer("table", torch.randn(6), persistent=False)
        self.plain = torch.randn(6)

    def forward(self, x, *, batch, scale=2, bias=None):
        self.seen.add_(x.sum(0))
        y = x * self.weight * scale + batch["mask"] + self.table + self.plain + torch.tensor([0.5])
        return {"y": y, "kept": x, "pair": (scale, None, y.shape[0])}, self.seen * 1


def test_results_arguments_and_state(tmp_path):
    model = Results().eval()
    x, mask = torch.randn(4, 6), torch.randn(4, 6)
    longhand.generate(
        model, (x,), {"scale": 3, "batch": {"mask": mask}}, out=tmp_path / "u", frontend="bytecode"
    )
    assert torch.equal(model.seen, torch.zeros(6))  # nothing ran
    unit = longhand.load(tmp_path / "u")()
    assert list(unit.state_dict()) == list(model.state_dict())
    unit.load_state_dict(model.state_dict())
    with torch.no_grad():
        (found, seen), (expected, was) = (m(x, scale=3, batch={"mask": mask}) for m in (unit, model))
    torch.testing.assert_close(found["y"], expected["y"])
    assert found["kept"] is x and found["pair"] == expected["pair"]
    torch.testing.assert_close(seen, was)
    torch.testing.assert_close(unit.seen, model.seen)


def test_sizes_that_may_differ(tmp_path):
    class Pooled(nn.Module):
        def forward(self, x, y):
            batch, seq = x.shape
            return (x.softmax(-1) * y).sum(-1) / seq, batch

    shapes = {"x": {0: torch.export.Dim("batch"), 1: torch.export.Dim.AUTO}, "y": {1: torch.export.Dim.AUTO}}
    args = torch.randn(5, 5), torch.randn(1, 5)  # equal sizes that are not one
    for frontend in ("export", "bytecode"):
        out = tmp_path / frontend
        longhand.generate(Pooled(), args, out=out, frontend=frontend, dynamic_shapes=shapes)
    assert text_of(tmp_path / "export") == text_of(tmp_path / "bytecode")
    unit = longhand.load(tmp_path / "bytecode")()
    args = torch.randn(3, 9), torch.randn(1, 9)
    torch.testing.assert_close(unit(*args), Pooled()(*args))


class Deciding(nn.Module):
    """Decides by sizes in ways that are no bounds."""

    def forward(self, x, y):
        rows = x.relu() if x.shape[0] % 4 == 0 else x.exp()
        return rows, y.relu() if x.shape[0] != y.shape[1] else y.exp()


@pytest.mark.parametrize("frontend", ["export", "bytecode"])
def test_what_was_decided_by_sizes_is_checked(tmp_path, frontend):
    shapes = {"x": {0: torch.export.Dim.AUTO}, "y": {1: torch.export.Dim.AUTO}}
    args = torch.randn(8, 3), torch.randn(3, 6)
    longhand.generate(Deciding(), args, out=tmp_path / "unit", frontend=frontend, dynamic_shapes=shapes)
    unit = longhand.load(tmp_path / "unit")()
    args = torch.randn(12, 3), torch.randn(3, 7)
    torch.testing.assert_close(unit(*args), Deciding()(*args))
    with pytest.raises(ValueError, match=r"expected x_size_0 % 4 == 0"):
        unit(torch.randn(6, 3), torch.randn(3, 7))
    with pytest.raises(ValueError, match=r"expected x_size_0 != y_size_1"):
        unit(torch.randn(8, 3), torch.randn(3, 8))
    assert "x_size_0 % 4 == 0" in (tmp_path / "unit" / "README.md").read_text()


def test_bounds_of_sizes(tmp_path):
    def halved(x, y):
        return x.relu() / 2 + y

    batch = torch.export.Dim("batch", min=3, max=8)
    shapes = {"x": {0: batch}, "y": {0: batch}}
    args = torch.randn(4, 3), torch.randn(4, 3)
    for frontend in ("export", "bytecode"):
        longhand.generate(halved, args, out=tmp_path / frontend, frontend=frontend, dynamic_shapes=shapes)
    assert text_of(tmp_path / "export") == text_of(tmp_path / "bytecode")
    unit = longhand.load(tmp_path / "bytecode")
    for rows in (2, 9):
        with pytest.raises(ValueError, match="batch: expected a size from 3 to 8"):
            unit(torch.randn(rows, 3), torch.randn(rows, 3))
    with pytest.raises(CaptureError, match="the example has size 9"):
        longhand.generate(
            halved, (torch.randn(9, 3),) * 2, out=tmp_path / "x", frontend="bytecode", dynamic_shapes=shapes
        )


def test_one_name_is_one_size(tmp_path):
    batch = torch.export.Dim("batch")
    options = {"out": tmp_path / "unit", "dynamic_shapes": {"x": {0: batch}, "y": {0: batch}}}

    def apart(x, y):
        return x.relu(), y.exp()

    def fixed(x, y):
        return x + torch.ones(4, 1), y

    longhand.generate(apart, (torch.randn(4, 3), torch.randn(4, 2)), frontend="bytecode", **options)
    with pytest.raises(ValueError, match="expected size 5"):
        longhand.load(tmp_path / "unit")(torch.randn(5, 3), torch.randn(4, 2))
    with pytest.raises(CaptureError, match="names two sizes batch"):
        longhand.generate(apart, (torch.randn(4, 3), torch.randn(5, 2)), frontend="bytecode", **options)
    with pytest.raises(CaptureError, match="only right for 4"):
        longhand.generate(fixed, (torch.randn(4, 3), torch.randn(4, 2)), frontend="bytecode", **options)


def test_a_function(tmp_path):
    def add_norm(x, residual, eps=1e-5):
        y = x + residual
        return (y - y.mean(-1, keepdim=True)) / (y.var(-1, keepdim=True) + eps).sqrt()

    args = torch.randn(7, 33), torch.randn(7, 33)
    for frontend in ("export", "bytecode"):
        longhand.generate(add_norm, args, out=tmp_path / frontend, frontend=frontend)
    assert text_of(tmp_path / "export") == text_of(tmp_path / "bytecode")


class Broken(nn.Module):
    """Three graphs: a value that is asked for, and a branch on data."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        hidden = torch.relu(self.first(x)) * 3
        size = hidden.sum().item()
        hidden = self.second(hidden) + size
        if hidden.mean() > 0:
            hidden = hidden + 1
        return torch.softmax(hidden, -1)


def test_every_break_is_told():
    with pytest.raises(GraphBreakError) as raised:
        longhand.generate(Broken().eval(), (torch.randn(4, 8),), out="never", frontend="bytecode")
    text = str(raised.value)
    assert len(raised.value.breaks) == 2 and "2 graph breaks" in text and "allow_breaks" in text
    lines = [where.rpartition(":")[2] for _, where, _ in raised.value.breaks]
    first = Broken.forward.__code__.co_firstlineno
    assert [int(line) - first for line in lines] == [2, 4]
    assert all(where.startswith(__file__) for _, where, _ in raised.value.breaks)


def test_one_graph_after_the_other(tmp_path, capsys):
    torch.manual_seed(1)
    model, x = Broken().eval(), torch.randn(4, 8)
    parts = longhand.generate(model, (x,), out=tmp_path / "o", frontend="bytecode", allow_breaks=True)
    folders = [graph.folder.name for graph in parts.graphs]
    assert len(parts.breaks) == 2 and folders == ["broken", "broken_2", "broken_3"]
    graphs = (tmp_path / "o" / "GRAPHS.md").read_text()
    assert all(f"({name}/README.md)" in graphs for name in folders)
    assert "item" in graphs
    model_py = tmp_path / "o" / "broken_2" / "model.py"
    model_py.write_text(model_py.read_text().replace("import torch", "import torch\n\nprint('mine')", 1))
    compiled = longhand.compile(model, out=tmp_path / "o", frontend="bytecode")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    assert "mine" in capsys.readouterr().out
    assert sorted(p.name for p in (tmp_path / "o").iterdir() if p.is_dir()) == folders
    with torch.no_grad():
        other = torch.randn(4, 8)
        torch.testing.assert_close(compiled(other), model(other))
    with torch.no_grad(), pytest.raises(GraphBreakError):
        longhand.compile(model, out=tmp_path / "p", frontend="bytecode", fullgraph=True)(x)


def test_a_folder_of_one_graph_is_not_mixed_with_parts(tmp_path):
    longhand.generate(lambda x: x.exp() + 1, (torch.randn(3),), out=tmp_path / "o", frontend="bytecode")
    with pytest.raises(OutputError, match="one graph"):
        longhand.generate(
            Broken().eval(),
            (torch.randn(4, 8),),
            out=tmp_path / "o",
            frontend="bytecode",
            allow_breaks=True,
        )


def test_what_is_no_unit():
    class Counting(nn.Module):
        count = 0

        def forward(self, x):
            self.count = self.count + 1
            return x * 2

    with pytest.raises(CaptureError, match="changes count"):
        longhand.generate(Counting(), (torch.randn(2),), out="never", frontend="bytecode")

    class Box:
        def __init__(self, value):
            self.value = value

    with pytest.raises(CaptureError, match=r"returns a .*Box"):
        longhand.generate(lambda x: Box(x * 2), (torch.randn(2),), out="never", frontend="bytecode")
    with pytest.raises(OptionError, match="dynamo"):
        longhand.generate(torch.relu, (torch.randn(2),), out="never", frontend="dynamo")


def test_the_command_line(tmp_path, monkeypatch):
    (tmp_path / "story.py").write_text(
        "import torch\n"
        "from torch import nn\n"
        "class Halting(nn.Module):\n"
        "    def forward(self, x):\n"
        "        x = x.exp() + 1\n"
        "        return x * x.sum().item()\n"
        "def make():\n"
        "    return Halting(), (torch.randn(3, 4),)\n"
    )
    monkeypatch.chdir(tmp_path)
    run = functools.partial(CliRunner().invoke, commands, catch_exceptions=True)
    arguments = ["generate", "story:make", "--out", "unit", "--frontend", "bytecode"]
    failed = run(arguments)
    assert isinstance(failed.exception, GraphBreakError)
    assert "story.py:6" in str(failed.exception) and "--allow-breaks" in str(failed.exception)
    assert not (tmp_path / "unit").exists()
    passed = run([*arguments, "--allow-breaks"])
    assert passed.exit_code == 0 and "2 graphs, 1 break" in passed.output, passed.output

    kernel = next((tmp_path / "unit").glob("*/kernels/*.cpp"))
    kernel.write_text(kernel.read_text() + "\n// mine\n")
    story = (tmp_path / "story.py").read_text()
    (tmp_path / "story.py").write_text(story.replace("x * x.sum().item()", "(x * x.sum().item()).tanh() * 3"))
    sys.modules.pop("story", None)
    part = str(kernel.parent.parent)
    refused = run(["generate", part])
    assert isinstance(refused.exception, UnitError) and "renewed together" in str(refused.exception)
    refused = run(["generate", "unit", "--train"])
    assert isinstance(refused.exception, OptionError) and "whose train stays" in str(refused.exception)
    before = "".join(path.read_text() for path in sorted((tmp_path / "unit").glob("*/model.py")))
    for words in (["generate", "unit"], ["generate", "--all"]):
        renewed = run(words)
        assert renewed.exit_code == 0 and "2 graphs, 1 break" in renewed.output, (
            renewed.output,
            renewed.exception,
        )
        assert "// mine" in kernel.read_text(), "an edit is kept"
    after = "".join(path.read_text() for path in sorted((tmp_path / "unit").glob("*/model.py")))
    assert after != before and "tanh" in after
