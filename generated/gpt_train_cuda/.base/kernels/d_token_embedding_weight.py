"""d_token_embedding_weight: d_token_embedding = unscaled_d_token_embedding * d_loss +
d_token_embedding_from_lookup_totals.

    GPT.forward    return self.head(self.ln_f(x))
    GPT.forward    x = self.token_embedding(tokens) + self.position_embedding(positions)

Reads unscaled_d_token_embedding and d_token_embedding_from_lookup_totals once, writes d_token_embedding once;
d_loss stays in cache.
"""

import triton
import triton.language as tl

from ..runtime import ceil_div, fast_launch

# Tunables.
BLOCK = 512  # elements per program
NUM_WARPS = 4


@fast_launch
@triton.jit
def d_token_embedding_weight_kernel(
    unscaled_d_token_embedding_ptr,  # bf16 (n_elements,)
    d_loss_ptr,  # bf16, one element
    d_token_embedding_from_lookup_totals_ptr,  # float32 (n_elements,)
    d_token_embedding_ptr,  # bf16 (n_elements,)
    n_elements,
    BLOCK: tl.constexpr,
):
    """Each program computes BLOCK elements; arithmetic in float32."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    in_range = i < n_elements

    unscaled_d_token_embedding = tl.load(unscaled_d_token_embedding_ptr + i, mask=in_range).to(tl.float32)
    d_loss = tl.load(d_loss_ptr).to(tl.float32)
    d_token_embedding_from_lookup_totals = tl.load(
        d_token_embedding_from_lookup_totals_ptr + i, mask=in_range
    )
    d_token_embedding_from_head = unscaled_d_token_embedding * d_loss

    tl.store(
        d_token_embedding_ptr + i,
        d_token_embedding_from_head + d_token_embedding_from_lookup_totals,
        mask=in_range,
    )


def d_token_embedding_weight(
    unscaled_d_token_embedding, d_loss, d_token_embedding_from_lookup_totals, d_token_embedding, n_elements
):
    """Fill d_token_embedding."""
    d_token_embedding_weight_kernel[(ceil_div(n_elements, BLOCK),)](
        unscaled_d_token_embedding,
        d_loss,
        d_token_embedding_from_lookup_totals,
        d_token_embedding,
        n_elements,
        BLOCK=BLOCK,
        num_warps=NUM_WARPS,
    )


def reference(unscaled_d_token_embedding, d_loss, d_token_embedding_from_lookup_totals):
    """What d_token_embedding_weight() must fill d_token_embedding with."""
    return unscaled_d_token_embedding * d_loss + d_token_embedding_from_lookup_totals
