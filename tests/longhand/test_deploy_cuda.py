"""A CUDA unit is built: Triton's binaries lie in it, and it launches them with the driver, without a compiler.

Here is no GPU: what is launched arrives at a driver of the test's own, and is compared with what must arrive.
"""

import contextlib
import ctypes
import importlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import threading
import types
import zipfile

import pytest
import torch

from longhand import cli
from longhand.deploy.cubins import usual_sets
from longhand.verify.varied_sizes import SizeRules, VariedSize
from tests.longhand import built_cuda_model

MODEL = "tests.longhand.built_cuda_model:make"
SIZES = {"pointer": "<Q", "i32": "<i", "i64": "<q", "fp32": "<f"}


def run(capsys, *words):
    code = cli.run([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, " ".join(captured.err.split())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "served"
    words = ["--device", "cuda", "--arch", "sm_90", "--dynamic", "x:0", "--no-run"]
    assert cli.run(["generate", MODEL, "--out", str(out), *words]) == 0
    return out


@pytest.fixture(scope="module")
def built(made, tmp_path_factory):
    out = tmp_path_factory.mktemp("built") / "served"
    words = ["--sizes", "x:0=2,32,4096", "--arch", "sm_80", "--arch", "sm_90"]
    assert cli.run(["build", str(made), "--out", str(out), *words]) == 0
    return out


class Driver:
    """Notes what is launched; the first launch of each thread finds no context, as CUDA has it."""

    def __init__(self):
        self.contents, self.launched, self.shared = [], [], []
        self.inside = threading.local()

    def cuCtxGetCurrent(self, context):
        context._obj.value = getattr(self.inside, "context", None)
        return 0

    def cuDevicePrimaryCtxRetain(self, context, device):
        context._obj.value = 1000 + device
        return 0

    def cuCtxSetCurrent(self, context):
        self.inside.context = context.value
        return 0

    def cuModuleLoadData(self, module, content):
        self.contents.append(content)
        module._obj.value = len(self.contents)
        return 0

    def cuModuleGetFunction(self, function, module, name):
        function._obj.value = module.value
        return 0 if name in self.contents[module.value - 1] else 500

    def cuFuncSetAttribute(self, function, attribute, value):
        self.shared.append((attribute, value))
        return 0

    def cuGetErrorString(self, code, words):
        words._obj.value = b"no such function"
        return 0

    def cuLaunchKernel(self, function, *rest):
        if getattr(self.inside, "context", None) is None:
            return 201
        *numbers, pointers, extra = rest
        slots = [ctypes.string_at(pointers[place], 8) for place in range(len(pointers))]
        self.launched.append((self.contents[function.value - 1], numbers, slots))
        assert extra is None
        return 0


@pytest.fixture
def served(built, tmp_path, monkeypatch):
    """The built unit, imported, on "GPU" number 0 of which its tensors are; with the driver and the manifest."""
    folder = shutil.copytree(built, tmp_path / f"served_{tmp_path.name}")
    monkeypatch.syspath_prepend(str(tmp_path))
    runtime = importlib.import_module(f"{folder.name}.runtime")
    driver = Driver()
    monkeypatch.setattr(runtime, "driver", lambda: driver)
    chosen, takes = [], runtime.takes
    monkeypatch.setattr(
        runtime, "takes", lambda entry, given: takes(entry, given) and (chosen.append(entry) or True)
    )
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda device=None: types.SimpleNamespace(cuda_stream=77)
    )
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.Tensor, "get_device", lambda tensor: 0)
    return types.SimpleNamespace(
        folder=folder, runtime=runtime, driver=driver, name=folder.name, chosen=chosen
    )


def called(served, n_rows, n_cols=64, offset=0):
    """One call of the unit's softmax; (grid and block, values that the kernel gets, its entry in the manifest)."""
    kernels = importlib.import_module(f"{served.name}.kernels")
    (name,) = [name for name in kernels.__all__ if "softmax" in name]
    given = torch.zeros(n_rows * n_cols + offset)[offset:].view(n_rows, n_cols)
    out = torch.empty(n_rows, n_cols)
    getattr(kernels, name)(given, out, n_rows, n_cols)
    content, numbers, slots = served.driver.launched[-1]
    entry = served.chosen[-1]
    assert (served.folder / "kernels/built" / entry["file"]).read_bytes() == content
    values = [
        struct.unpack_from(SIZES["pointer" if kind.startswith("*") else kind], slot)[0]
        for (_, kind, _), slot in zip(entry["takes"], slots, strict=False)
    ]
    assert slots[len(values) :] == [bytes(8)] * (entry["parameters"] - len(values))
    return numbers, values, entry, (given, out)


def test_what_is_launched_is_what_was_built_with_the_calls_arguments(served):
    numbers, values, entry, (given, out) = called(served, 4096)
    assert numbers[3:6] == [entry["threads"], 1, 1] and numbers[6:] == [entry["shared"], 77]
    assert numbers[0] * entry["constants"]["ROWS"] == 4096 and numbers[1:3] == [1, 1]
    assert values[:2] == [given.data_ptr(), out.data_ptr()]
    assert entry["arch"] == "sm_90" and [multiple for *_, multiple in entry["takes"]] == [16, 16, 16]
    assert values[2:] == [4096]
    before = len(served.driver.contents)
    called(served, 4096)
    assert len(served.driver.contents) == before, "a binary is loaded once"


def test_other_numbers_and_addresses_take_binaries_that_assume_less(served):
    *_, entry, _ = called(served, 4095)
    assert [multiple for *_, multiple in entry["takes"]] == [16, 16, 1]
    _, values, entry, (given, _) = called(served, 4096, offset=1)
    assert given.data_ptr() % 16 and values[0] == given.data_ptr()
    assert [multiple for *_, multiple in entry["takes"]] == [1, 1, 1]


def test_another_gpu_takes_its_own_binary(served, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (8, 6))
    *_, entry, _ = called(served, 32)
    assert entry["arch"] == "sm_80"


def test_a_thread_that_has_no_context_gets_one(served):
    called(served, 32)
    thread = threading.Thread(target=called, args=(served, 32))
    thread.start()
    thread.join()
    assert len(served.driver.launched) == 2


def test_what_was_not_built_is_told_with_what_to_do(served, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(
        served.runtime.KernelBuildError, match=r"not built for .*n_cols=48.* on a GPU of sm_90.*--sizes"
    ):
        called(served, 32, n_cols=48)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (10, 0))
    with pytest.raises(served.runtime.KernelBuildError, match="a GPU of sm_100"):
        called(served, 2)


def test_where_a_compiler_is_triton_compiles_what_was_not_built(served, monkeypatch):
    compiled = []
    monkeypatch.setattr(
        served.runtime.FastLaunch,
        "compile",
        lambda self, *args: compiled.append((self.kernel.fn.__name__, args[3])),
    )
    kernels = importlib.import_module(f"{served.name}.kernels")
    (name,) = [name for name in kernels.__all__ if "softmax" in name]
    for _ in range(2):  # each with its own tensors
        launched = torch.zeros(8, 48)
        getattr(kernels, name)(launched, launched, 8, 48)
        assert compiled[-1][1][0] is launched
    assert not served.driver.launched


def test_a_kernel_that_was_edited_or_damaged_is_told(served):
    (kernel,) = [path for path in served.folder.glob("kernels/*.py") if "softmax" in path.name]
    for cubin in served.folder.rglob("*.cubin"):
        cubin.write_bytes(cubin.read_bytes()[:-1] + b"?")
    with pytest.raises(served.runtime.KernelBuildError, match="is damaged"):
        called(served, 32)
    kernel.write_text(kernel.read_text() + "\n# edited\n")
    with pytest.raises(served.runtime.KernelBuildError, match="is not what was built"):
        called(served, 32)


SERVE = """
import sys
sys.modules["longhand"] = None
sys.path.insert(0, sys.argv[1])
import torch, triton
from served import Net
from served import runtime
model = Net()
model.load_state_dict(torch.load(sys.argv[2]))
found = runtime.manifest()["binaries"]
print("served", len(found), model.widen.weight.shape[0])
try:
    runtime.driver()
except OSError as error:
    print("no driver:", error)
"""


def test_a_wheel_of_it_is_installed_and_imported_without_a_compiler(made, tmp_path, capsys):
    code, shown, error = run(capsys, "build", made, "--wheel", tmp_path / "dist", "--json", "--sizes", "none")
    assert code == 0, error
    told = json.loads(shown)
    assert (told["device"], told["built_for"], told["kernels"], told["left"]) == ("cuda", ["sm_90"], 2, [])
    (wheel,) = (tmp_path / "dist").iterdir()
    assert wheel.name == "served-1.0-py3-none-any.whl"
    assert "triton" in zipfile.ZipFile(wheel).read("served-1.0.dist-info/METADATA").decode()
    site, nothing = tmp_path / "site", tmp_path / "nothing"
    nothing.mkdir()
    pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site), str(wheel)]
    subprocess.run([sys.executable, *pip], check=True)
    torch.save(built_cuda_model.make()[0].state_dict(), tmp_path / "state.pt")
    environment = {"PATH": str(nothing), "HOME": str(nothing), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SERVE, str(site), str(tmp_path / "state.pt")],
        env=environment,
        capture_output=True,
        text=True,
        cwd=nothing,
    )
    assert done.returncode == 0 and done.stdout.startswith("served 2 64"), done.stderr
    assert not list(nothing.rglob("*.so")), "Triton built nothing"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--arch", "hopper"), "'hopper' is no GPU"),
        (("--isa", "x86-64-v3"), "--isa is of CPU units"),
        (("--sizes", "y=3"), "no size called 'y' varies"),
    ],
)
def test_what_cannot_be_built_is_told(made, tmp_path, capsys, words, told):
    code, _, error = run(capsys, "build", made, "--out", tmp_path / "out", *words)
    assert code == 2 and told in error and not (tmp_path / "out").exists()


def test_a_kernel_without_the_units_launcher_is_left_to_triton(made, tmp_path, capsys):
    unit = shutil.copytree(made, tmp_path / "unit")
    (kernel,) = [path for path in unit.glob("kernels/*.py") if "softmax" in path.name]
    kernel.write_text(re.sub(r"@fast_launch.*\n", "", kernel.read_text()))
    code, shown, error = run(capsys, "build", unit, "--out", tmp_path / "out", "--sizes", "none")
    assert code == 0, error
    assert "1 kernel for sm_90" in shown and "lacks @fast_launch" in shown


def test_usual_sizes_are_the_powers_of_two_of_a_range():
    rules = SizeRules((VariedSize("batch", 2, 40, 32), VariedSize("seq", 1, None, 100)), (), ("batch != 8",))
    sets = usual_sets(rules)
    assert [one["batch"] for one in sets if "batch" in one] == [2, 4, 16, 32, 33]
    assert [one["seq"] for one in sets if "seq" in one] == [*(1 << power for power in range(13)), 101]


def test_the_recipe_for_package_data_takes_binaries_along():
    docs = (os.path.dirname(__file__), "..", "..", "docs", "deployment.md")
    with open(os.path.join(*docs), encoding="utf-8") as page:
        assert '"built/*/*.cubin"' in page.read()
