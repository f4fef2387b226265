"""The table of architectures: ``python -m benchmarks.architectures [FAMILY | FAMILY/NAME ...]``, docs/architectures.md.

Small models of many packages with random weights, compiled and compared with eager, torch's Dynamo beside.
"""

from __future__ import annotations

import importlib.metadata

import torch

_LIBRARIES: list[torch.library.Library] = []


def _declare_missing_ops() -> None:
    """Lets torchvision's Python be imported where its compiled ops cannot load: beside a torch of another build.

    Whatever imports torchvision when it is there (timm, transformers) would fail else. None of the models calls them.
    """
    try:
        version = importlib.metadata.version("torchvision")
    except importlib.metadata.PackageNotFoundError:
        return
    if torch.version.cuda is None and "+cpu" not in version and not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _LIBRARIES.append(library)


_declare_missing_ops()
