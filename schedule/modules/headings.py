"""What stands above a paragraph: the part of the module that it belongs to, and the user's statement where that helps.

``# self_attn`` heads what a layer's attention does, and what has one such heading is read as one block. A statement is
quoted above a kernel that does several, or whose work no name tells: ``blas.linear(x, self.q_proj.weight)`` says itself
that it is ``self.q_proj(x)``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from torch import fx

from longhand.lower.ir import Extern
from longhand.schedule.modules.held import Branch
from longhand.schedule.names.call_frames import own_origins
from longhand.schedule.names.operation_names import SILENT, aten_name
from longhand.schedule.plan import Launch, touched

# Calls that everybody reads without the statement that they came from, by the op's name without its overload.
_PRODUCT_OPS = """
    mm bmm addmm addmm_ baddbmm addmv mv dot linear matmul _grouped_mm
    convolution conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution_backward
"""
_PRODUCTS = frozenset(_PRODUCT_OPS.split())
_EVIDENT_OPS = """
    scaled_dot_product_attention _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_cudnn_attention
    _scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward
    _scaled_dot_product_flash_attention_for_cpu_backward _scaled_dot_product_cudnn_attention_backward
    sort topk argsort cumsum histc
    max_pool1d max_pool2d max_pool3d max_pool2d_with_indices avg_pool1d avg_pool2d avg_pool3d
    adaptive_avg_pool1d adaptive_avg_pool2d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d
    upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_bicubic2d
"""
_EVIDENT = _PRODUCTS | frozenset(_EVIDENT_OPS.split())


def is_evident(step: Launch | Extern, n_statements: int, weights: Collection[str]) -> bool:
    """Whether a call says what it does without the user's words: a product, or a kernel of one statement on a weight.

    Args:
        step: The call.
        n_statements: How many of the user's it does.
        weights: The buffers that are reached by their place in the module.
    """
    if isinstance(step, Extern) and _op(step) in _EVIDENT:
        return True
    return n_statements == 1 and any(name in weights for name in touched(step))


def is_product(step: Launch | Extern) -> bool:
    """Whether a library multiplies matrices there, or convolves."""
    return isinstance(step, Extern) and _op(step) in _PRODUCTS


def _op(step: Extern) -> str:
    packet = getattr(step.target, "overloadpacket", step.target)
    return getattr(packet, "__name__", "")


def is_lone_sum(step: Launch | Extern, nodes: Mapping[str, fx.Node]) -> bool:
    """Whether a kernel adds two things and does nothing else: there is nothing to remark on."""
    if not isinstance(step, Launch):
        return False
    ops = [aten_name(nodes[name]) for name in own_origins(step.origins, nodes) if name in nodes]
    return [name for name in ops if name not in SILENT] == ["add"]


@dataclasses.dataclass(frozen=True)
class Home:
    """The module whose function this is.

    Attributes:
        root: Of all modules.
        path: Its own; of layers that of their list.
        is_list: Whether it is that.
        word: What the function calls the module, where that is no self; or empty.
    """

    root: Branch
    path: str = ""
    is_list: bool = False
    word: str = ""

    def below(self, path: str) -> list[str]:
        """The way to a module from this one; of a module that is elsewhere, none."""
        parts, own = _parts(path), _parts(self.path)
        return parts[len(own) + self.is_list :] if parts[: len(own)] == own else []

    def told(self, parts: Sequence[str]) -> list[str]:
        """A way from this one as it is told: of a member of a list with the list's word, ``layer4[0]``."""
        return [self.word, *parts] if self.word and parts and parts[0].isdigit() else [*parts]

    def here(self, path: str) -> list[str]:
        """The way from the root to this one: of layers to the one that a path is in."""
        own = _parts(self.path)
        return [*own, *_parts(path)[len(own) : len(own) + self.is_list]]


def heading_of(paths: Sequence[str], home: Home | None, trunks: Collection[str] = ()) -> str:
    """The part of a function's module that does something: ``self_attn``; empty where that is the module itself.

    Args:
        paths: Of the modules whose statements these are.
        home: The function's module; None: no part of it heads anything.
        trunks: Paths of lists of layers that the function walks: a module that holds one heads nothing.
    """
    if not paths or home is None:
        return ""
    first, *others = [home.below(path) for path in paths]
    parts = [part for n, part in enumerate(first) if all(one[: n + 1] == first[: n + 1] for one in others)]
    here = home.here(paths[0])
    while parts and not _holds_modules(home.root, [*here, *parts]):
        parts = parts[:-1]
    inside = [*here, *parts]
    if any(_parts(trunk)[: len(inside)] == inside for trunk in trunks):
        return ""
    return path_text(home.told(parts))


def path_text(parts: Iterable[str]) -> str:
    """``layers[3].mlp``"""
    return "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in parts).lstrip(".")


def _parts(path: str) -> list[str]:
    return path.split(".") if path else []


def _holds_modules(root: Branch, parts: Sequence[str]) -> bool:
    """Whether there is a module that others are in."""
    branch = root
    for part in parts:
        inner = branch.branches.get(part)
        if inner is None:
            return False
        branch = inner
    return bool(branch.branches)
