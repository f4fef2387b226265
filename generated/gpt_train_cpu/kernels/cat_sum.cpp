// cat_sum: d_qkv and d_bias by cat and sum in one pass, column by column.
//
//     CausalSelfAttention.forward    q, k, v = self.qkv(x).split(dim, dim=-1)
//
// Reads d_q_contiguous, d_k_contiguous and d_v_contiguous once, writes d_qkv and d_bias once.

#include <algorithm>
#include <cstdint>

constexpr long COLS = 256;     // columns that are accumulated at a time
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of columns; it walks down the rows.
extern "C" void cat_sum(
    const float *d_q_contiguous,  // read at computed places
    const float *d_k_contiguous,  // read at computed places
    const float *d_v_contiguous,  // read at computed places
    float *d_qkv,                 // (n_rows, n_cols)
    float *d_bias,                // (n_cols,)
    long n_rows,
    long n_cols,
    long d_q_contiguous_stride,
    long d_k_contiguous_stride,
    long d_k_contiguous_offset,
    long d_v_contiguous_stride,
    long d_v_contiguous_offset,
    int64_t boundary,
    int64_t d_linear_by) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long begin = 0; begin < n_cols; begin += COLS) {
    const long end = std::min(begin + COLS, n_cols);
    float d_gpt_blocks_3_attn_qkv_bias[COLS];
    std::fill_n(d_gpt_blocks_3_attn_qkv_bias, COLS, 0.0f);

    for (long row = 0; row < n_rows; ++row) {
      const float *d_q_contiguous_row = d_q_contiguous + row * d_q_contiguous_stride;
      const float *d_k_contiguous_row = d_k_contiguous + row * d_k_contiguous_stride;
      const float *d_v_contiguous_row = d_v_contiguous + row * d_v_contiguous_stride;
      float *d_qkv_row = d_qkv + row * n_cols;
#pragma omp simd
      for (long col = begin; col < end; ++col) {
        const bool is_less = col < boundary;
        const float d_q_contiguou = is_less ? d_q_contiguous_row[col] : 0.0f;
        const bool attn_is_less = col < d_linear_by;
        const float d_k_contiguou =
            !is_less && attn_is_less ? d_k_contiguous_row[col + d_k_contiguous_offset] : 0.0f;
        const float d_v_contiguou = !attn_is_less ? d_v_contiguous_row[col + d_v_contiguous_offset] : 0.0f;
        const float selected = is_less ? d_q_contiguou : attn_is_less ? d_k_contiguou : d_v_contiguou;

        d_gpt_blocks_3_attn_qkv_bias[col - begin] += selected;
        d_qkv_row[col] = selected;
      }
    }
#pragma omp simd
    for (long col = begin; col < end; ++col) {
      d_bias[col] = d_gpt_blocks_3_attn_qkv_bias[col - begin];
    }
  }
}
