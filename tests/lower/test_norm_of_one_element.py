"""Before torch 2.12 its fake tensors keep a dimension of one element that a norm counts from the end."""

import pytest
import torch

from longhand.capture.frontends.export import capture_export
from longhand.errors import CaptureError
from longhand.lower.interpreter import results_of, run_program
from longhand.lower.lowering import lower
from longhand.options import Device, Options, Target


def norm(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.vector_norm(x, 3, -1)


@pytest.mark.parametrize("dims", [-1, 0, (), None, (-1,)])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (3, 1, 2)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_norms_along_all_kinds_of_dimensions(dims: object, shape: tuple[int, ...], keepdim: bool) -> None:
    def norm_along(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.vector_norm(x, 3, dims, keepdim) * 2  # type: ignore[arg-type]

    x = torch.randn(shape)
    graph = capture_export(norm_along, (x,), target=Target(Device.CPU))
    program = lower(graph, Options(Target(Device.CPU)))
    inputs = {graph.inputs[0].node: x}
    (result,) = results_of(program, run_program(program, inputs), inputs)
    torch.testing.assert_close(result, norm_along(x))


@pytest.mark.parametrize("says_so", [False, True])
def test_a_shape_that_eager_does_not_give_is_refused(says_so: bool) -> None:
    """Seeds 300060 and 300243 of the random programs: compile gave a tensor of another shape without a word."""
    options = Options(Target(Device.CPU))
    graph = capture_export(norm, (torch.ones(1),), target=options.target)
    (node,) = (one for one in graph.graph.nodes if "vector_norm" in str(one.target))
    if not says_so:
        node.meta["val"] = node.meta["val"].view(())
        lower(graph, options)
        return
    node.meta["val"] = node.meta["val"].view(1)
    with pytest.raises(CaptureError, match="another shape") as refused:
        lower(graph, options)
    assert "dim=0" in str(refused.value)
