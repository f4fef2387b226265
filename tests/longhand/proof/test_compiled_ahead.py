"""Kernels are compiled while the unit is made, and the first call finds what was compiled."""

import logging
import os
import subprocess
import sys

import pytest
import torch

import longhand
from longhand.loading import bound
from longhand.proof import triton_compiler
from longhand.proof.triton_compiler import capability
from tests.longhand.proof import test_one_bad_kernel as models

# What a first launch on an H100 does, up to the driver: Triton looks for the binary in its cache.
FIRST_LAUNCH = """
import sys
sys.path[:0] = [{server!r}, {folder!r}]
import torch, triton
from triton_server import Driver
import unit.kernels
module = sys.modules["unit.kernels.layer_norm"]
triton.runtime.driver.set_active(Driver(90))
kernel = module.layer_norm_kernel.kernel
found = []
class Launch:
    def __getitem__(self, grid):
        return lambda *args, **options: found.append(kernel.run(*args, grid=grid, warmup=True, **options))
module.layer_norm_kernel = Launch()
triton.knobs.compilation.listener = lambda **facts: print("hit" if facts["cache_hit"] else "miss")
x = torch.empty(6, 24)
w = torch.empty(24)
module.layer_norm(x, w, w, torch.empty(6, 24), 6, 24, 1e-5)
"""


# What the process that compiles does itself before its forks compile, and then a kernel, as a fork would.
SECOND_KERNEL = """
import sys
sys.path.insert(0, {server!r})
import triton_server
triton_server.make_ready()
triton_server.know_tools(90)
def hear(event, args):
    if event == "import" and args[0].startswith("triton.experimental"):
        print("imports", args[0])
    if event == "open" and "libtriton" in str(args[0]):
        print("reads", args[0])
    if event == "subprocess.Popen" and "--version" in args[1]:
        print("asks", args[1])
sys.addaudithook(hear)
text = "import triton\\n@triton.jit\\ndef one(x, n): pass\\ndef run(x): one[(1,)](x, 8)"
request = dict(files={{"runtime.py": "", "kernels/run.py": text}}, root="/nowhere", capability=90, is_told=False)
print(triton_server.compiled_kernel(request, "run", [[["float32", [8], [1]]]]))
"""


@pytest.fixture
def caches(tmp_path, monkeypatch):
    """Empty ones; the process that compiles is started anew, to see them."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    triton_compiler._end()
    yield tmp_path
    triton_compiler._end()


def test_a_first_launch_finds_it(caches):
    models.generated(caches / "unit", device="cuda")
    server = os.path.dirname(triton_compiler.__file__)
    done = subprocess.run(
        [sys.executable, "-c", FIRST_LAUNCH.format(server=server, folder=str(caches))],
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["hit"], done.stdout + done.stderr


def test_no_kernel_does_what_one_does_for_all(caches):
    """Triton hashes itself, imports a second language and asks for ptxas's version: 0.4 s, once a process."""
    server = os.path.dirname(triton_compiler.__file__)
    done = subprocess.run(
        [sys.executable, "-c", SECOND_KERNEL.format(server=server)], capture_output=True, text=True
    )
    assert done.stdout.strip() == "{'kernel': 'run', 'error': '', 'usage': []}", done.stdout + done.stderr


def test_a_first_call_on_the_cpu_builds_nothing(caches):
    models.generated(caches / "unit")
    model, args = models.small()
    built = {path: path.stat().st_ino for path in (caches / "xdg").rglob("*.so")}
    assert len(built) == 2
    with torch.no_grad():
        bound(longhand.load(caches / "unit"), model)(*args)
    assert {path: path.stat().st_ino for path in (caches / "xdg").rglob("*.so")} == built


def test_registers_and_spills_are_told(caches, caplog):
    longhand.set_logs("kernels")
    try:
        with caplog.at_level(logging.INFO, logger="longhand.kernels"):
            models.generated(caches / "unit", device="cuda")
    finally:
        longhand.set_logs()
    told = [record.getMessage() for record in caplog.records if record.name == "longhand.kernels"]
    assert len(told) == 2
    assert all("registers" in line and "sm_90" in line for line in told)


def test_what_kills_the_compiler_is_told_of_one_kernel(caches, monkeypatch):
    text = "import os\n    os._exit(7)\n    "
    models.spoiled(monkeypatch, "cuda", "layer_norm", "cols = next", f"{text}cols = next")
    with pytest.warns(longhand.errors.KernelWarning, match="the compiler ended with 7"):
        summary = models.generated(caches / "unit", device="cuda")
    assert len(summary.in_torch) == 1


def test_the_architecture_as_triton_counts():
    assert capability("sm_90a") == 90 and capability("sm_120") == 120


def test_without_a_compiler_the_unit_is_written_all_the_same(caches, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert models.generated(caches / "unit").in_torch == ()
    assert not list((caches / "xdg").rglob("*.so"))


def test_it_compiles_where_processor_time_is_limited(caches):
    """`ulimit -t 120`: nobody may ask for more than they were given."""
    limited = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (120, 120))\n"
        "from pathlib import Path\n"
        "from tests.longhand.proof import test_one_bad_kernel as models\n"
        "models.generated(Path(sys.argv[1]), device='cuda')\n"
    )
    command = [sys.executable, "-W", "error::UserWarning", "-c", limited, str(caches / "unit")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "does not compile" not in done.stderr, done.stderr[-2000:]
