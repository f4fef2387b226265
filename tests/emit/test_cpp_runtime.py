"""The C++ part of runtime.py: building, caching, calling, and the pool of large results."""

from __future__ import annotations

import gc
import os
import pickle
import re
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest
import torch

from longhand.schedule.names.words import RESERVED_IN_KERNEL
from tests.emit.cpp_kernels import TEMPLATES, runtime_in

SCALE = """// scale: out = x * factor + n.
#include "shift.h"

extern "C" void scale(
    const float *x,  // (n,)
    float *out,      // (n,); may be x
    long n,
    float factor) {
  for (long i = 0; i < n; ++i) {
    out[i] = x[i] * factor + SHIFT;
  }
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A unit's folder with one kernel and a header."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kernels = tmp_path / "unit" / "kernels"
    kernels.mkdir(parents=True)
    (kernels / "scale.cpp").write_text(SCALE)
    (kernels / "shift.h").write_text("#define SHIFT 1\n")
    return tmp_path / "unit"


@pytest.fixture(params=[True, False], ids=["c_api", "ctypes"])
def runtime(folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The runtime with and without Python.h."""
    module = runtime_in(folder)
    if not request.param:
        monkeypatch.setattr(module, "_has_binding", lambda: False)
    return module


def test_calls_with_tensors_ints_and_floats(runtime: ModuleType) -> None:
    scale = runtime.load_kernel("scale.cpp")
    x = torch.randn(11)
    out = torch.empty(11)
    assert scale(x, out, 11, 2.5) is None
    torch.testing.assert_close(out, x * 2.5 + 1)
    scale(torch.nn.Parameter(x), out, torch.tensor(11).item(), 2)
    torch.testing.assert_close(out, x * 2 + 1)
    scale(torch.empty(0), torch.empty(2, 0), 0, 2.5)
    assert scale.__name__ == "scale"


def test_takes_numbers_by_name_in_any_order(runtime: ModuleType) -> None:
    scale = runtime.load_kernel("scale.cpp")
    x, out = torch.randn(11), torch.empty(11)
    for factor, named in ((2.5, {"n": 11, "factor": 2.5}), (3.5, {"factor": 3.5, "n": 11})):
        scale(x, out, **named)
        torch.testing.assert_close(out, x * factor + 1)
    scale(factor=0.5, out=out, n=11, x=x)
    torch.testing.assert_close(out, x * 0.5 + 1)


@pytest.mark.parametrize(
    "named, words",
    [
        ({"n": 3, "scale": 1.0}, "has no parameter 'scale'"),
        ({"x": 3, "factor": 1.0}, "'x'"),
        ({"n": 3}, "takes 4 arguments, got 3"),
        ({"n": 3, "factor": 1.0, "other": 1}, "takes 4 arguments, got 5|has no parameter 'other'"),
    ],
)
def test_says_what_is_wrong_with_a_name(runtime: ModuleType, named: dict, words: str) -> None:
    scale = runtime.load_kernel("scale.cpp")
    with pytest.raises(TypeError, match=words):
        scale(torch.empty(3), torch.empty(3), **named)


KINDS = """#include <cstdint>
{include}

extern "C" void kinds(const {element} *x, {element} *out, long n) {{
  for (long i = 0; i < n; ++i) out[i] = x[i];
}}
"""


@pytest.mark.parametrize("element", ["double", "bool", "uint8_t", "int8_t", "int16_t", "int32_t", "int64_t"])
def test_takes_its_own_type_and_no_other(runtime: ModuleType, folder: Path, element: str) -> None:
    _check_kinds(runtime, folder, element, "")


@pytest.mark.parametrize("element", ["float16", "bfloat16"])
def test_takes_its_own_short_type_and_no_other(runtime: ModuleType, folder: Path, element: str) -> None:
    _check_kinds(runtime, folder, element, f"using {element} = std::uint16_t;")


def _check_kinds(runtime: ModuleType, folder: Path, element: str, include: str) -> None:
    (folder / "kernels" / "kinds.cpp").write_text(KINDS.format(element=element, include=include))
    kinds = runtime.load_kernel("kinds.cpp")
    own = getattr(torch, {"double": "float64"}.get(element, element.removesuffix("_t")))
    x = torch.arange(2).to(own)
    out = torch.empty_like(x)
    kinds(x, out, 2)
    assert torch.equal(out, x)
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.bool, torch.int8, torch.int64):
        if dtype is not own:
            with pytest.raises(TypeError, match=f"kinds: x must be {own}, got {dtype}"):
                kinds(torch.zeros(2, dtype=dtype), out, 2)


@pytest.mark.parametrize(
    "given, words",
    [
        ((None, torch.empty(3), 3, 1.0), "scale: x must be a tensor, got NoneType"),
        (
            (torch._efficientzerotensor(3), torch.empty(3), 3, 1.0),
            "scale: x holds no memory: it is no plain tensor",
        ),
        ((torch.empty(3), [1.0], 3, 1.0), "scale: out must be a tensor, got list"),
        (
            (torch.empty(3, dtype=torch.float64), torch.empty(3), 3, 1.0),
            "scale: x must be torch.float32, got torch.float64",
        ),
        (
            (torch.empty(3), torch.empty(3, dtype=torch.int32), 3, 1.0),
            "scale: out must be torch.float32, got torch.int32",
        ),
        (
            (torch.empty(3, device="meta"), torch.empty(3), 3, 1.0),
            "scale: x holds no memory: it is no plain tensor",
        ),
        ((torch.empty(3), torch.empty(3), "3", 1.0), "scale: n must be an int, got '3'"),
        ((torch.empty(3), torch.empty(3), 3.5, 1.0), "scale: n must be an int, got 3.5"),
        ((torch.empty(3), torch.empty(3), 3, "1"), "scale: factor must be a number, got '1'"),
        ((torch.empty(3), torch.empty(3), 3), "scale(x, out, n, factor) takes 4 arguments, got 3"),
    ],
)
def test_says_what_is_wrong_with_an_argument(runtime: ModuleType, given: tuple, words: str) -> None:
    with pytest.raises(TypeError) as raised:
        runtime.load_kernel("scale.cpp")(*given)
    assert str(raised.value) == words


def test_builds_again_when_the_kernel_or_a_header_changes(folder: Path) -> None:
    def result() -> float:
        out = torch.empty(1)
        runtime_in(folder).load_kernel("scale.cpp")(torch.ones(1), out, 1, 2.0)
        return out.item()

    assert result() == 3
    (folder / "kernels" / "shift.h").write_text("#define SHIFT 5\n")
    assert result() == 7
    text = (folder / "kernels" / "scale.cpp").read_text()
    (folder / "kernels" / "scale.cpp").write_text(text.replace("* factor", "- factor"))
    assert result() == 4


def test_a_second_load_compiles_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime_in(folder).load_kernel("scale.cpp")
    again = runtime_in(folder)
    monkeypatch.setattr(again.subprocess, "run", lambda *_, **__: pytest.fail("compiled again"))
    again.load_kernel("scale.cpp")


def test_a_compile_error_names_the_kernel_s_line(folder: Path) -> None:
    (folder / "kernels" / "scale.cpp").write_text(SCALE.replace("x[i] * factor", "y[i] * factor"))
    runtime = runtime_in(folder)
    with pytest.raises(
        runtime.KernelBuildError, match=r"kernels/scale\.cpp:10:14: error: .*y.* was not declared"
    ):
        runtime.load_kernel("scale.cpp")


def test_a_broken_kernel_does_not_keep_others_from_loading(folder: Path) -> None:
    (folder / "kernels" / "broken.cpp").write_text('extern "C" void broken(long n) { nonsense; }')
    runtime = runtime_in(folder)
    runtime.load_kernel("scale.cpp")
    with pytest.raises(runtime.KernelBuildError, match="nonsense"):
        runtime.load_kernel("broken.cpp")


def test_a_missing_compiler_is_told(folder: Path) -> None:
    runtime = runtime_in(folder)
    runtime.COMPILER = "no-such-compiler"
    with pytest.raises(runtime.KernelBuildError, match=r"'no-such-compiler' was not found.*Install g\+\+ 11"):
        runtime.load_kernel("scale.cpp")


@pytest.mark.parametrize(
    "text, words",
    [
        ('extern "C" int scale(long n) { return n; }', "expected one function"),
        ('extern "C" void scale(unsigned n) {}', "parameter `unsigned n`"),
        ('extern "C" void scale(long double n) {}', "parameter `long double n`"),
    ],
)
def test_an_unknown_signature_is_told(folder: Path, text: str, words: str) -> None:
    (folder / "kernels" / "scale.cpp").write_text(text)
    runtime = runtime_in(folder)
    with pytest.raises(runtime.KernelBuildError, match=words):
        runtime.load_kernel("scale.cpp")


def test_the_cache_folder_is_private_and_bounded(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "longhand" / "cpp"
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    for number in range(5):
        (cache / f"old-{number}.so").write_bytes(b"")
        os.utime(cache / f"old-{number}.so", (number, number))
    runtime = runtime_in(folder)
    runtime.MOST_BUILDS = 3
    runtime.load_kernel("scale.cpp")
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    left = sorted(path.name.split("-")[0] + path.name[-5:] for path in cache.glob("*.so"))
    assert len(left) == 3 and left[:2] == ["old-3.so"[:3] + "-3.so", "old-4.so"[:3] + "-4.so"]


def test_a_build_in_use_stays_in_the_cache(folder: Path, tmp_path: Path) -> None:
    """Another process found it a moment ago and may not have loaded it yet."""
    runtime = runtime_in(folder)
    runtime.MOST_BUILDS = 1
    built = runtime.build(folder / "kernels" / "scale.cpp")
    os.utime(built, (0, 0))
    assert runtime.build(folder / "kernels" / "scale.cpp") == built
    assert time.time() - built.stat().st_mtime < 60
    (folder / "kernels" / "other.cpp").write_text(
        (folder / "kernels" / "scale.cpp").read_text() + "// changed\n"
    )
    runtime.build(folder / "kernels" / "other.cpp")
    assert built.exists()
    os.utime(built, (0, 0))
    (folder / "kernels" / "other.cpp").write_text(
        (folder / "kernels" / "scale.cpp").read_text() + "// again\n"
    )
    runtime.build(folder / "kernels" / "other.cpp")
    assert not built.exists()


def test_an_unusable_cache_folder_is_told(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    runtime = runtime_in(folder)
    with pytest.raises(runtime.KernelBuildError, match="Set XDG_CACHE_HOME"):
        runtime.load_kernel("scale.cpp")


def test_processes_may_build_at_the_same_time(folder: Path) -> None:
    runtime_in(folder)
    code = "import torch, runtime; x = torch.ones(2); runtime.load_kernel('scale.cpp')(x, x, 2, 3.0); print(x.tolist())"
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    running = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [process.communicate()[0].strip() for process in running] == ["[4.0, 4.0]"] * 2


# ---- the pool ----

MANY = (1024, 1024)


@pytest.fixture
def pool(folder: Path) -> ModuleType:
    return runtime_in(folder)


def test_memory_comes_back_when_the_last_view_dies(pool: ModuleType) -> None:
    first = pool.empty(MANY, torch.float32)
    place = first.data_ptr()
    assert place % 64 == 0 and first.is_contiguous()
    view = first[5:].t()
    del first
    second = pool.empty(MANY, torch.float32)
    assert second.data_ptr() != place
    del view
    gc.collect()
    third = pool.empty((MANY[0] * MANY[1],), torch.int32)
    assert third.data_ptr() == place


def test_small_and_empty_results_are_ordinary(pool: ModuleType) -> None:
    assert pool.empty((3, 0), torch.float32).shape == (3, 0)
    assert pool.empty((), torch.float64).shape == ()
    assert pool.empty(torch.ones(2, 3).shape, torch.int8).stride() == (3, 1)
    assert pool.empty((7,), torch.bool).resize_(9).shape == (9,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.bool, torch.int64])
def test_pooled_tensors_behave(pool: ModuleType, dtype: torch.dtype) -> None:
    x = pool.empty((512, 4096), dtype)
    x.copy_(torch.randint(0, 2, (512, 4096)))
    expected = x.clone()
    assert torch.equal(pickle.loads(pickle.dumps(x)), expected)
    assert torch.equal(x.share_memory_(), expected)
    y = pool.empty((512, 4096), dtype)
    assert torch.equal(y.copy_(expected).to(torch.float32).add_(1) - 1, expected.float())
    with pytest.raises(RuntimeError, match="resize"):
        y.resize_(1024, 8192)
    y.set_(expected)
    assert torch.equal(y, expected)


def test_the_pool_is_bounded(pool: ModuleType) -> None:
    pool.MOST_FREE_BYTES = 8 << 20
    held = [pool.empty(MANY, torch.float32) for _ in range(6)]
    held.clear()
    gc.collect()
    assert sum(size * len(blocks) for size, blocks in pool._free.items()) <= 12 << 20
    assert not pool._lent


def test_threads_and_children_have_their_own_memory(pool: ModuleType) -> None:
    def work(number: int) -> None:
        for _ in range(50):
            x = pool.empty(MANY, torch.int64)
            x[::97].fill_(number)
            assert bool((x[::97] == number).all())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    x = pool.empty(MANY, torch.float32).fill_(1)
    child = os.fork()
    if child == 0:
        x.numpy()[:] = 2  # no OpenMP in a forked child
        y = pool.empty(MANY, torch.float32)
        y.numpy()[:] = 3
        os._exit(0 if float(x.numpy()[0, 0]) == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert bool((x == 1).all())


def test_no_kernel_is_called_what_the_binding_defines() -> None:
    """A kernel stands in one translation unit with it: a function called `method` would be ambiguous."""
    text = (TEMPLATES / "runtime" / "cpp.py.jinja").read_text()
    binding = text[text.index("namespace {") : text.index('extern "C" PyObject')]
    defined = set(re.findall(r"^(?:[\w:<>]+ )+\**(\w+)(?=\(|;| =|\[)", binding, re.MULTILINE))
    defined |= set(re.findall(r"^struct (\w+)", binding, re.MULTILINE))
    assert {"method", "exchange", "call", "Tensor"} <= defined
    assert defined <= RESERVED_IN_KERNEL


HEAP_AFTER_IMPORTS = """
import sys
from pathlib import Path
from tests.emit.cpp_kernels import runtime_in

def heap():
    ends = next(line for line in open("/proc/self/maps") if "[heap]" in line).split()[0].split("-")
    return int(ends[1], 16) - int(ends[0], 16)

kept = [runtime_in(Path(sys.argv[1]))]
before = heap()
for _ in range(8):
    kept += [bytearray(100_000), runtime_in(Path(sys.argv[1])), bytearray(100_000)]
print((heap() - before) >> 20)
"""


def test_a_unit_more_does_not_make_the_heap_longer(folder: Path) -> None:
    """The system does not fork a process whose heap is longer than its memory (ENOMEM), however empty it is."""
    ran = subprocess.run(
        [sys.executable, "-c", HEAP_AFTER_IMPORTS, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert int(ran.stdout) < 31, ran.stdout
