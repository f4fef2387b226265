"""adamw: exp_avg, exp_avg_sq and param from these and grad, for all tensors of the lists.

    adamw    param.mul_(decay)
    adamw    exp_avg.lerp_(grad, 1 - BETA1)
    adamw    exp_avg_sq.mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
    adamw    denominator = exp_avg_sq.sqrt() / root_correction + EPS
    adamw    param.sub_(step_size * exp_avg / denominator)

One launch over lists of tensors of any sizes. Reads exp_avg, grad, exp_avg_sq and param once, writes exp_avg,
exp_avg_sq and param once; decay, step_size and root_correction stay in cache.
"""

import torch
import triton
import triton.language as tl

from ..runtime import fast_launch, tensor_table

ONE_MINUS_BETA1 = tl.constexpr(0.09999999999999998)
BETA2 = tl.constexpr(0.999)
ONE_MINUS_BETA2 = tl.constexpr(0.0010000000000000009)

# Tunables.
BLOCK = 1024  # elements per program
NUM_WARPS = 8


@triton.jit
def tensor_pointer(address, dtype: tl.constexpr, ALIGNMENT: tl.constexpr):
    """A tensor by the place of its address, which is a multiple of ALIGNMENT: 16 makes wide loads."""
    return tl.multiple_of(tl.load(address).to(tl.pointer_type(dtype)), ALIGNMENT)


@fast_launch
@triton.jit
def adamw_kernel(
    grads_ptr,  # int64 (n_tensors,): addresses of float32 (n_elements,)
    exp_avgs_ptr,  # int64 (n_tensors,): addresses of float32 (n_elements,)
    exp_avg_sqs_ptr,  # int64 (n_tensors,): addresses of float32 (n_elements,)
    params_ptr,  # int64 (n_tensors,): addresses of float32 (n_elements,)
    tensor_of_block_ptr,  # int64, for each program
    first_block_ptr,  # int64 (n_tensors,)
    n_elements_ptr,  # int64 (n_tensors,)
    decay_ptr,  # float32, one element
    step_size_ptr,  # float32, one element
    root_correction_ptr,  # float32, one element
    eps: tl.constexpr,
    ALIGNMENT: tl.constexpr,  # all addresses (bytes) and sizes (elements) are multiples of it: 16 or 1
    BLOCK: tl.constexpr,
):
    """Each program computes BLOCK elements of a tensor."""
    tensor = tl.load(tensor_of_block_ptr + tl.program_id(0))
    block = tl.program_id(0) - tl.load(first_block_ptr + tensor)
    n_elements = tl.multiple_of(tl.load(n_elements_ptr + tensor), ALIGNMENT)
    grad_ptr = tensor_pointer(grads_ptr + tensor, tl.float32, ALIGNMENT)
    exp_avg_ptr = tensor_pointer(exp_avgs_ptr + tensor, tl.float32, ALIGNMENT)
    exp_avg_sq_ptr = tensor_pointer(exp_avg_sqs_ptr + tensor, tl.float32, ALIGNMENT)
    param_ptr = tensor_pointer(params_ptr + tensor, tl.float32, ALIGNMENT)

    i = block * BLOCK + tl.arange(0, BLOCK)
    in_range = i < n_elements

    exp_avg = tl.load(exp_avg_ptr + i, mask=in_range)
    grad = tl.load(grad_ptr + i, mask=in_range)
    exp_avg_sq = tl.load(exp_avg_sq_ptr + i, mask=in_range)
    param = tl.load(param_ptr + i, mask=in_range)
    decay = tl.load(decay_ptr)
    step_size = tl.load(step_size_ptr)
    root_correction = tl.load(root_correction_ptr)

    new_exp_avg = exp_avg + (grad - exp_avg) * ONE_MINUS_BETA1
    new_exp_avg_sq = exp_avg_sq * BETA2 + grad * grad * ONE_MINUS_BETA2
    denominator = tl.div_rn(tl.sqrt_rn(new_exp_avg_sq), root_correction) + eps

    tl.store(exp_avg_ptr + i, new_exp_avg, mask=in_range)
    tl.store(exp_avg_sq_ptr + i, new_exp_avg_sq, mask=in_range)
    tl.store(param_ptr + i, param * decay - tl.div_rn(step_size * new_exp_avg, denominator), mask=in_range)


def adamw(grads, decay, step_size, root_correction, exp_avgs, exp_avg_sqs, params, eps):
    """Update exp_avgs, exp_avg_sqs and params in place."""
    table = tensor_table([grads, exp_avgs, exp_avg_sqs, params], BLOCK)
    adamw_kernel[(table.n_blocks,)](
        *table.addresses,
        table.tensor_of_block,
        table.first_block,
        table.n_elements,
        decay,
        step_size,
        root_correction,
        eps,
        ALIGNMENT=table.alignment,
        BLOCK=BLOCK,
        num_warps=NUM_WARPS,
    )


def reference(grad, decay, step_size, root_correction, exp_avg, exp_avg_sq, param, eps):
    """What adamw() must fill exp_avg, exp_avg_sq and param with."""
    new_exp_avg = exp_avg + (grad - exp_avg) * 0.09999999999999998
    new_exp_avg_sq = exp_avg_sq * 0.999 + grad * grad * 0.0010000000000000009
    new_param = param * decay - step_size * new_exp_avg / (torch.sqrt(new_exp_avg_sq) / root_correction + eps)
    return new_exp_avg, new_exp_avg_sq, new_param
