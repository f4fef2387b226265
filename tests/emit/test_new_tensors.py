"""New tensors on CUDA: what allocates without the dispatcher makes what torch.empty makes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from longhand.emit.unit.templates import write_runtime

HERE = torch.device("meta", 0)


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """With the allocator of tensors on the CPU in the place of CUDA's, and the meta device as the current one."""
    found: dict[str, Any] = {"__name__": __name__}
    exec(write_runtime(["new_empty", "empty_like"]), found)
    found["allocate"] = torch._C._dynamo.guards._empty_strided_cpu
    found["current_device"] = lambda: HERE.index
    return found


@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 4), (2, 3, 4, 5)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64, torch.bool])
def test_they_are_what_torch_makes(
    runtime: dict[str, Any], shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    layouts = [torch.contiguous_format, *([torch.channels_last] if len(shape) == 4 else [])]
    for layout in layouts:
        made = runtime["new_empty"](shape, dtype, HERE, layout)
        expected = torch.empty(shape, dtype=dtype, memory_format=layout)
        assert made.device.type == "cpu", "by the allocator"
        assert (made.shape, made.stride(), made.dtype) == (shape, expected.stride(), dtype)


def test_one_like_another_lies_as_that_does(runtime: dict[str, Any]) -> None:
    tensor = torch.nn.Parameter(torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last))
    runtime["current_device"] = lambda: tensor.get_device()
    made = runtime["empty_like"](tensor)
    assert (made.shape, made.stride(), type(made)) == (tensor.shape, tensor.stride(), torch.Tensor)
    assert not made.requires_grad


def test_another_device_and_modes_are_torchs(runtime: dict[str, Any]) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("allocated past torch")

    runtime["allocate"] = refuse
    new_empty, empty_like = runtime["new_empty"], runtime["empty_like"]
    assert new_empty((2,), torch.float32, torch.device("cpu")).device.type == "cpu"
    assert new_empty((2,), torch.float32, torch.device("meta", 1)).is_meta
    assert empty_like(torch.empty(2)).shape == (2,)
    with FakeTensorMode() as mode:
        assert new_empty((2,), torch.float32, HERE).fake_mode is mode
    torch.use_deterministic_algorithms(True)
    try:  # fills what it makes
        assert new_empty((2,), torch.float32, HERE).is_meta
        assert empty_like(torch.empty(2)).isnan().all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_where_torch_has_no_such_allocator_it_makes_them_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C._dynamo.guards, "_empty_strided_cuda", raising=False)
    found: dict[str, Any] = {"__name__": __name__}
    exec(write_runtime(["new_empty", "empty_like"]), found)
    assert found["new_empty"]((2, 3), torch.float32, torch.device("cpu")).shape == (2, 3)
    assert found["empty_like"](torch.empty(2, 3)).shape == (2, 3)
