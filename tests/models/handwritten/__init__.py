"""Models as people write them by hand, beyond transformers' own: recurrent, graph, diffusion, experts, positions.

`HANDWRITTEN` maps a name to a factory of ``(module, args)``. Sizes are small, so that Triton's interpreter runs them
in seconds; tests/models/cuda_sweep.py makes a CUDA unit of each.
"""

from tests.models.handwritten import (
    diffusion,
    experts,
    graphs,
    images,
    positions,
    recurrent,
    sequences,
    tables_and_fields,
)
from tests.models.handwritten.registry import HANDWRITTEN

__all__ = [
    "HANDWRITTEN",
    "diffusion",
    "experts",
    "graphs",
    "images",
    "positions",
    "recurrent",
    "sequences",
    "tables_and_fields",
]
