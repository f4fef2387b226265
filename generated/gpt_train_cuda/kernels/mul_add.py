"""mul_add: mul and add in one pass, from gpt_x and token_embedding to d_weight and d_weight_contiguous.

    GPT.forward    return self.head(self.ln_f(x))
    GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)

Reads gpt_x, d_cross_entropy_loss and token_embedding once, writes d_weight and d_weight_contiguous once.
"""

import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch

# Tunables.
BLOCK = 1024  # elements per program
NUM_WARPS = 4


@fast_launch
@triton.jit
def mul_add_kernel(
    gpt_x_ptr,  # bf16 (n_elements,)
    d_cross_entropy_loss_ptr,  # bf16, one element
    token_embedding_ptr,  # bf16 (n_elements,)
    d_weight_ptr,  # bf16 (n_elements,)
    d_weight_contiguous_ptr,  # bf16 (n_elements,)
    n_elements,
    BLOCK: tl.constexpr,
):
    """Each program computes BLOCK elements; arithmetic in float32."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    in_range = i < n_elements

    gpt_x = tl.load(gpt_x_ptr + i, mask=in_range).to(tl.float32)
    d_cross_entropy_loss = tl.load(d_cross_entropy_loss_ptr).to(tl.float32)
    token_embedding = tl.load(token_embedding_ptr + i, mask=in_range).to(tl.float32)

    d_gpt_token_embedding_weight = gpt_x * d_cross_entropy_loss + token_embedding

    tl.store(d_weight_ptr + i, d_gpt_token_embedding_weight, mask=in_range)
    tl.store(d_weight_contiguous_ptr + i, d_gpt_token_embedding_weight, mask=in_range)


def mul_add(gpt_x, d_cross_entropy_loss, token_embedding, d_weight, d_weight_contiguous, n_elements):
    """Fill d_weight and d_weight_contiguous."""
    mul_add_kernel[(ceil_div(n_elements, BLOCK),)](
        gpt_x,
        d_cross_entropy_loss,
        token_embedding,
        d_weight,
        d_weight_contiguous,
        n_elements,
        BLOCK=BLOCK,
        num_warps=NUM_WARPS,
    )


def reference(gpt_x, d_cross_entropy_loss, token_embedding):
    """What mul_add() must fill d_weight and d_weight_contiguous with."""
    d_weight_contiguous = gpt_x * d_cross_entropy_loss + token_embedding
    return d_weight_contiguous, d_weight_contiguous
