"""When buffers are used for the last time, and which may share their memory with another."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from longhand.lower.ir import Extern
from longhand.schedule.plan import Launch, touched

# Library calls whose result is certainly memory of its own: nothing else may be overwritten in place.
_NAMES = """
    mm bmm addmm baddbmm addbmm addmv mv linear matmul convolution conv1d conv2d conv3d embedding clone cumsum
    scaled_dot_product_attention _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_cudnn_attention sort topk argsort
    max_pool2d max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d gather
    upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_bicubic2d
    convolution_backward max_pool2d_with_indices_backward avg_pool2d_backward _adaptive_avg_pool2d_backward
    upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward upsample_bilinear2d_backward
    upsample_bicubic2d_backward embedding_dense_backward
"""
FRESH_RESULTS = frozenset(_NAMES.split())


@dataclasses.dataclass(frozen=True)
class Lifetimes:
    """When buffers are used for the last time.

    Attributes:
        first_use: By buffer, the position of the first step that touches it.
        last_use: By buffer, the position of the last step that touches it or a view of it.
        shared: Buffers whose memory an extern may have handed on as (part of) its result, and those results.
    """

    first_use: Mapping[str, int]
    last_use: Mapping[str, int]
    shared: frozenset[str]


def find_lifetimes(steps: Sequence[Launch | Extern]) -> Lifetimes:
    """Last uses; a result that may be a view of an argument keeps the argument alive."""
    first_use: dict[str, int] = {}
    last_use: dict[str, int] = {}
    roots: dict[str, set[str]] = {}
    shared: set[str] = set()
    for number, step in enumerate(steps):
        for name in touched(step):
            first_use.setdefault(name, number)
            for root in {name} | roots.get(name, set()):
                last_use[root] = number
        if isinstance(step, Extern) and _may_return_view(step):
            sources = {view.buffer for view in step.views()}
            inherited = sources.union(*(roots.get(source, set()) for source in sources))
            for output in step.outputs:
                roots[output] = inherited
            shared |= inherited | set(step.outputs)
    return Lifetimes(first_use, last_use, frozenset(shared))


def _may_return_view(step: Extern) -> bool:
    """Whether a call's result may share memory with an argument: all but those known not to."""
    return step.target._schema.name.removeprefix("aten::") not in FRESH_RESULTS
