"""AdamW over all parameters of a model, written as a person does: one parameter after the other.

The step and the learning rate are tensors, so that neither a later step nor a schedule makes it another function.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

BETA1, BETA2, EPS, DECAY = 0.9, 0.999, 1e-8, 0.01
Lists = tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]


def adamw(
    params: list[torch.Tensor],
    grads: list[torch.Tensor],
    exp_avgs: list[torch.Tensor],
    exp_avg_sqs: list[torch.Tensor],
    step: torch.Tensor,
    lr: torch.Tensor,
) -> None:
    """One step: updates the parameters, both averages and the number of the step."""
    step += 1
    decay = 1 - lr * DECAY
    step_size = lr / (1 - BETA1**step)
    root_correction = (1 - BETA2**step).sqrt()
    for param, grad, exp_avg, exp_avg_sq in zip(params, grads, exp_avgs, exp_avg_sqs, strict=True):
        param.mul_(decay)
        exp_avg.lerp_(grad, 1 - BETA1)
        exp_avg_sq.mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
        denominator = exp_avg_sq.sqrt() / root_correction + EPS
        param.sub_(step_size * exp_avg / denominator)


def gpt_shapes(n_tokens: int, max_seq: int, dim: int, n_layers: int) -> list[tuple[int, ...]]:
    """The parameters of examples/gpt.py."""
    block = [(dim,), (dim,), (3 * dim, dim), (3 * dim,), (dim, dim), (dim,), (dim,), (dim,)]
    block += [(4 * dim, dim), (4 * dim,), (dim, 4 * dim), (dim,)]
    return [(n_tokens, dim), (max_seq, dim), *block * n_layers, (dim,), (dim,)]


def state(shapes: list[tuple[int, ...]]) -> tuple[list[torch.Tensor] | torch.Tensor, ...]:
    """What a step is given: random parameters and gradients, averages as they are after some steps."""
    params, grads, exp_avgs = ([torch.randn(shape) for shape in shapes] for _ in range(3))
    exp_avg_sqs = [torch.rand(shape) for shape in shapes]
    return params, grads, exp_avgs, exp_avg_sqs, torch.tensor(3.0), torch.tensor(1e-3)


def small() -> tuple[Callable[..., None], tuple[list[torch.Tensor] | torch.Tensor, ...]]:
    """The parameters of a GPT with 4 blocks."""
    return adamw, state(gpt_shapes(512, 128, 128, 4))


def default() -> tuple[Callable[..., None], tuple[list[torch.Tensor] | torch.Tensor, ...]]:
    """The parameters of GPT-2 small (124M)."""
    return adamw, state(gpt_shapes(50257, 1024, 768, 12))
