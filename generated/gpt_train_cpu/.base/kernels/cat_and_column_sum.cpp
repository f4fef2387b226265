// cat_and_column_sum: cat and sum in one pass, from d_q_contiguous, d_k_contiguous and d_v_contiguous to
// d_qkv and d_bias, column by column.
//
//     CausalSelfAttention.forward    q, k, v = self.qkv(x).split(dim, dim=-1)
//
// Reads d_q_contiguous, d_k_contiguous and d_v_contiguous once, writes d_qkv and d_bias once.

#include <algorithm>

constexpr long COLS = 256;     // columns that are accumulated at a time
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of columns; it walks down the rows.
extern "C" void cat_and_column_sum(
    const float *d_q_contiguous,  // read at computed places
    const float *d_k_contiguous,  // read at computed places
    const float *d_v_contiguous,  // read at computed places
    float *d_qkv,                 // (n_rows, n_cols)
    float *d_bias,                // (n_cols,)
    long n_rows,
    long n_cols,
    long d_q_contiguous_stride,
    long d_k_contiguous_stride,
    long d_v_contiguous_stride,
    long boundary,
    long d_linear_by) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long begin = 0; begin < n_cols; begin += COLS) {
    const long end = std::min(begin + COLS, n_cols);
    double d_gpt_blocks_3_attn_qkv_bias[COLS];
    std::fill_n(d_gpt_blocks_3_attn_qkv_bias, COLS, 0.0);

    for (long row = 0; row < n_rows; ++row) {
      const float *d_q_contiguous_row = d_q_contiguous + row * d_q_contiguous_stride;
      const float *d_k_contiguous_row = d_k_contiguous + row * d_k_contiguous_stride;
      const float *d_v_contiguous_row = d_v_contiguous + row * d_v_contiguous_stride;
      float *d_qkv_row = d_qkv + row * n_cols;
#pragma omp simd
      for (long col = begin; col < end; ++col) {
        const bool is_less = col < boundary;
        const float d_q_contiguous_value = is_less ? d_q_contiguous_row[col] : 0.0f;
        const bool attn_is_less = col < d_linear_by;
        const float d_k_contiguous_value =
            !is_less && attn_is_less ? d_k_contiguous_row[col - boundary] : 0.0f;
        const float d_v_contiguous_value = !attn_is_less ? d_v_contiguous_row[col - d_linear_by] : 0.0f;
        const float d_qkv_value = is_less        ? d_q_contiguous_value
                                  : attn_is_less ? d_k_contiguous_value
                                                 : d_v_contiguous_value;

        d_gpt_blocks_3_attn_qkv_bias[col - begin] += d_qkv_value;
        d_qkv_row[col] = d_qkv_value;
      }
    }
#pragma omp simd
    for (long col = begin; col < end; ++col) {
      d_bias[col] = d_gpt_blocks_3_attn_qkv_bias[col - begin];
    }
  }
}
