"""The direct launcher hands to the driver what the installed Triton's own launcher would; compared without a GPU."""

import types
from unittest import mock

import pytest
import torch
import triton
from triton.backends.nvidia.driver import CudaLauncher

from longhand.emit.unit.templates import write_runtime

SIZES = ("global_scratch_size", "global_scratch_align", "profile_scratch_size", "profile_scratch_align")


@pytest.fixture(scope="module")
def runtime():
    module = types.ModuleType("runtime")
    exec(compile(write_runtime(["fast_launch"]), "runtime.py", "exec"), vars(module))
    return module


@pytest.fixture
def launcher(monkeypatch):
    """A launcher as Triton's constructor leaves it, whose call of the driver is written down."""
    driver = types.SimpleNamespace(
        get_current_stream=lambda device: 5, allocate_default_profile_scratch=lambda *_: None
    )
    monkeypatch.setattr(triton.runtime.driver, "_active", driver)
    made = object.__new__(CudaLauncher)
    vars(made).update(dict.fromkeys(SIZES, 0))
    made.launch_cooperative_grid, made.launch_pdl = False, True
    made.num_ctas, made.gsan_enabled = 1, False
    made.arg_annotations, made.kernel_signature = ("annotations",), b"signature"
    made.calls = []
    made.launch = lambda *args: made.calls.append(args)
    return made


def compiled_with(launcher):
    return types.SimpleNamespace(run=launcher, packed_metadata=("metadata",), function=7)


def test_the_arguments_are_tritons_own(runtime, launcher):
    launcher(1, 2, 3, 5, 7, ("metadata",), None, None, None, 64, 128, 4)
    run, fixed, as_tuple = runtime.direct(compiled_with(launcher))
    run(1, 2, 3, 5, 7, *fixed, *([(64, 128, 4)] if as_tuple else (64, 128, 4)))
    own, ours = launcher.calls
    assert ours == own
    assert as_tuple is not triton.__version__.startswith("3.6.")  # the order of 3.7 to 3.9
    assert len(ours) == 16  # of 3.6: 13 and a kernel's three


def test_a_kernel_that_needs_memory_goes_through_tritons_launcher(runtime, launcher):
    launcher.global_scratch_size = 128
    run, fixed, as_tuple = runtime.direct(compiled_with(launcher))
    assert run is launcher and not as_tuple and fixed == (("metadata",), None, None, None)


def some_kernel():
    @triton.jit
    def copy_kernel(x_ptr, y_ptr, n, BLOCK: triton.language.constexpr):
        pass

    return copy_kernel


@pytest.fixture
def launches(runtime, launcher, monkeypatch):
    """A decorated kernel whose compilation and device are made up; (launch, what Triton's own path was called with)."""
    kernel = some_kernel()
    if not isinstance(kernel, triton.JITFunction):
        pytest.skip("runs in Triton's interpreter")
    compilations = []

    def run(*args, grid, warmup, **options):
        compilations.append((args, grid, options))
        return compiled_with(launcher)

    monkeypatch.setattr(kernel, "run", run)
    monkeypatch.setattr(torch.cuda, "device", lambda device: mock.MagicMock())
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    return runtime.fast_launch(kernel), compilations


def test_the_first_call_compiles_with_fusion_and_the_next_go_to_the_driver(launches, launcher):
    kernel, compilations = launches
    x, y = torch.zeros(8), torch.zeros(8)
    for _ in range(3):
        kernel[(4,)](x, y, 8, BLOCK=16, num_warps=2)
    ((args, grid, options),) = compilations
    assert args[2] == 8 and grid == (4, 1, 1)
    assert options == {"BLOCK": 16, "num_warps": 2, "enable_fp_fusion": True}
    assert len(launcher.calls) == 2
    for call in launcher.calls:
        assert call[:5] == (4, 1, 1, 5, 7)
        given = call[-4:] if triton.__version__.startswith("3.6.") else call[-1]
        assert given == (x.data_ptr(), y.data_ptr(), 8, 16)


def test_an_unknown_triton_launches_by_itself_with_fusion(launches, launcher, monkeypatch):
    kernel, compilations = launches
    monkeypatch.setattr(triton, "__version__", "3.10.0")
    for _ in range(2):
        kernel[(4,)](torch.zeros(8), torch.zeros(8), 8, BLOCK=16)
    assert [options for _, _, options in compilations] == [{"BLOCK": 16, "enable_fp_fusion": True}] * 2
    assert not launcher.calls
