"""adamw: exp_avg, exp_avg_sq and param from these and grad, for all tensors of the lists.

    adamw    param.mul_(decay)
    adamw    exp_avg.lerp_(grad, 1 - BETA1)
    adamw    exp_avg_sq.mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
    adamw    denominator = exp_avg_sq.sqrt() / root_correction + EPS
    adamw    param.sub_(step_size * exp_avg / denominator)

In PyTorch calls, those of its reference: as a kernel it does not compile for sm_90.
"""

import torch

from ..runtime import fill, window


def adamw(grads, decay, step_size, root_correction, exp_avgs, exp_avg_sqs, params, eps):
    """Fills exp_avgs, exp_avg_sqs and params."""
    for grad, exp_avg, exp_avg_sq, param in zip(grads, exp_avgs, exp_avg_sqs, params, strict=True):
        n_elements = grad.numel()
        fill(
            (
                window(exp_avg, (n_elements,), (1,)),
                window(exp_avg_sq, (n_elements,), (1,)),
                window(param, (n_elements,), (1,)),
            ),
            reference(
                window(grad, (n_elements,), (1,)),
                window(decay, (), ()),
                window(step_size, (), ()),
                window(root_correction, (), ()),
                window(exp_avg, (n_elements,), (1,)),
                window(exp_avg_sq, (n_elements,), (1,)),
                window(param, (n_elements,), (1,)),
                eps,
            ),
        )


def reference(grad, decay, step_size, root_correction, exp_avg, exp_avg_sq, param, eps):
    """What adamw() must fill exp_avg, exp_avg_sq and param with."""
    new_exp_avg = exp_avg + (grad - exp_avg) * 0.09999999999999998
    new_exp_avg_sq = exp_avg_sq * 0.999 + grad * grad * 0.0010000000000000009
    new_param = param * decay - step_size * new_exp_avg / (torch.sqrt(new_exp_avg_sq) / root_correction + eps)
    return new_exp_avg, new_exp_avg_sq, new_param
