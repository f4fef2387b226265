// cat_and_column_sum: d_qkv = cat(d_q, d_k, d_v); d_bias = sum(d_qkv), column by column.
//
//     CausalSelfAttention.forward    q, k, v = self.qkv(x).split(dim, dim=-1)
//
// Reads d_q, d_k and d_v once, writes d_qkv and d_bias once.

#include <algorithm>

constexpr long COLS = 256;     // columns that are accumulated at a time
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of columns; it walks down the rows.
extern "C" void cat_and_column_sum(
    const float *d_q,  // read at computed places
    const float *d_k,  // read at computed places
    const float *d_v,  // read at computed places
    float *d_qkv,      // (n_rows, n_cols)
    float *d_bias,     // (n_cols,)
    long n_rows,
    long n_cols,
    long d_q_stride,
    long d_k_stride,
    long d_v_stride,
    long boundary,
    long second_boundary) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long begin = 0; begin < n_cols; begin += COLS) {
    const long end = std::min(begin + COLS, n_cols);
    double col_sum[COLS];
    std::fill_n(col_sum, COLS, 0.0);

    for (long row = 0; row < n_rows; ++row) {
      const float *d_q_row = d_q + row * d_q_stride;
      const float *d_k_row = d_k + row * d_k_stride;
      const float *d_v_row = d_v + row * d_v_stride;
      float *d_qkv_row = d_qkv + row * n_cols;
#pragma omp simd
      for (long col = begin; col < end; ++col) {
        const bool in_first = col < boundary;
        const float d_q_value = in_first ? d_q_row[col] : 0.0f;
        const bool in_first_two = col < second_boundary;
        const float d_k_value = !in_first && in_first_two ? d_k_row[col - boundary] : 0.0f;
        const float d_v_value = !in_first_two ? d_v_row[col - second_boundary] : 0.0f;
        const float d_qkv_value = in_first ? d_q_value : in_first_two ? d_k_value : d_v_value;

        col_sum[col - begin] += d_qkv_value;
        d_qkv_row[col] = d_qkv_value;
      }
    }
#pragma omp simd
    for (long col = begin; col < end; ++col) {
      d_bias[col] = col_sum[col - begin];
    }
  }
}
