"""adamw: exp_avg, exp_avg_sq and param from these and grad, for all tensors of the lists.

The kernel is adamw.cpp, built when it changes.
"""

import torch

from ..runtime import addresses_of, load_kernel, sizes_of

on_addresses = load_kernel("adamw.cpp")


def adamw(grads, decay, step_size, root_correction, exp_avgs, exp_avg_sqs, params, eps):
    """Updates exp_avgs, exp_avg_sqs and params: every tensor of the lists in one call."""
    addresses = addresses_of(grads, exp_avgs, exp_avg_sqs, params)
    n_elements = sizes_of(grads)
    on_addresses(
        addresses[0],
        decay,
        step_size,
        root_correction,
        addresses[1],
        addresses[2],
        addresses[3],
        n_elements,
        len(grads),
        eps,
    )


def reference(grad, decay, step_size, root_correction, exp_avg, exp_avg_sq, param, eps):
    """What adamw() must fill exp_avg, exp_avg_sq and param with."""
    new_exp_avg = exp_avg + (grad - exp_avg) * 0.09999999999999998
    new_exp_avg_sq = exp_avg_sq * 0.999 + grad * grad * 0.0010000000000000009
    new_param = param * decay - step_size * new_exp_avg / (torch.sqrt(new_exp_avg_sq) / root_correction + eps)
    return new_exp_avg, new_exp_avg_sq, new_param
