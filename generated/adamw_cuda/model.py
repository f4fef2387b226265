"""adamw as kernels for cuda (sm_90), float32.

Updates params, exp_avgs, exp_avg_sqs and step in place.

    params       148 tensors, float32: (50257, 768), (1024, 768), (768,), (768,), ...
    grads        148 tensors, float32: (50257, 768), (1024, 768), (768,), (768,), ...
    exp_avgs     148 tensors, float32: (50257, 768), (1024, 768), (768,), (768,), ...
    exp_avg_sqs  148 tensors, float32: (50257, 768), (1024, 768), (768,), (768,), ...
    step         float32 ()
    lr           float32 ()

Written by longhand, yours to edit: `longhand generate` merges, `longhand verify` compares with eager PyTorch.
"""

import torch

from . import kernels
from .runtime import check_lists_apart, check_tensor, check_tensors

SHAPES = [
    (50257, 768),
    (1024, 768),
    (768,),
    (768,),
    *[
        (2304, 768),
        (2304,),
        (768, 768),
        (768,),
        (768,),
        (768,),
        (3072, 768),
        (3072,),
        (768, 3072),
        (768,),
        (768,),
        (768,),
    ]
    * 12,
]
EPS = 1e-8


def adamw(params, grads, exp_avgs, exp_avg_sqs, step, lr):
    """Computes what examples.adamw.adamw does."""
    check_tensors("params", params, dtype=torch.float32, shapes=SHAPES, device="cuda")
    check_tensors("grads", grads, dtype=torch.float32, shapes=SHAPES, device=params[0].device)
    check_tensors("exp_avgs", exp_avgs, dtype=torch.float32, shapes=SHAPES, device=params[0].device)
    check_tensors("exp_avg_sqs", exp_avg_sqs, dtype=torch.float32, shapes=SHAPES, device=params[0].device)
    check_tensor("step", step, dtype=torch.float32, shape=(), device=params[0].device)
    check_tensor("lr", lr, dtype=torch.float32, shape=(), device=params[0].device)
    check_lists_apart(
        params=params, grads=grads, exp_avgs=exp_avgs, exp_avg_sqs=exp_avg_sqs, step=step, lr=lr
    )

    # adamw    step += 1; decay = 1 - lr * DECAY; step_size = lr / (1 - BETA1**step)
    # adamw    root_correction = (1 - BETA2**step).sqrt()
    root_correction = torch.empty_like(lr)
    decay = torch.empty_like(lr)
    step_size = torch.empty_like(lr)
    kernels.decay_step_size_and_root_correction(lr, step, root_correction, decay, step_size)

    # adamw    param.sub_(step_size * exp_avg / denominator)
    kernels.adamw(grads, decay, step_size, root_correction, exp_avgs, exp_avg_sqs, params, eps=EPS)
