// make_d_qkv: d_qkv_out = cat(d_q, d_k, d_v); d_bias = sum(d_qkv_out), column by column.
//
//     CausalSelfAttention.forward    q, k, v = self.qkv(x).split(dim, dim=-1)
//
// Reads d_q, d_k and d_v once, writes d_qkv_out and d_bias once.

#include <algorithm>
#include <vector>

constexpr long ROWS = 32;      // rows per chunk, at least
constexpr long COLS = 1024;    // columns that are accumulated at a time
constexpr long SPLITS = 256;   // chunks of the rows, at most
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per chunk of rows and block of columns. The chunks' sums are added up in double.
extern "C" void make_d_qkv(
    const float *d_q,  // rows of d_q_stride elements
    const float *d_k,  // rows of d_k_stride elements
    const float *d_v,  // rows of d_v_stride elements
    float *d_qkv_out,  // (n_rows, n_cols)
    float *d_bias,     // (n_cols,)
    long n_rows,
    long n_cols,
    long d_q_stride,
    long d_k_stride,
    long d_v_stride,
    long d_q_end,
    long d_k_end) {
  const long n_splits = std::max(1L, std::min(SPLITS, n_rows / ROWS));
  const long chunk = (n_rows + n_splits - 1) / n_splits;
  std::vector<float> partial(n_splits * n_cols);

#pragma omp parallel for collapse(2) if (n_rows * n_cols >= GRAIN)
  for (long split = 0; split < n_splits; ++split) {
    for (long begin = 0; begin < n_cols; begin += COLS) {
      const long end = std::min(begin + COLS, n_cols);
      const long row_end = std::min((split + 1) * chunk, n_rows);
      float *col_sum = partial.data() + split * n_cols;
      std::fill(col_sum + begin, col_sum + end, 0.0f);

      for (long row = split * chunk; row < row_end; ++row) {
        const float *d_q_row = d_q + row * d_q_stride;
        const float *d_k_row = d_k + row * d_k_stride;
        const float *d_v_row = d_v + row * d_v_stride;
        float *d_qkv_out_row = d_qkv_out + row * n_cols;
#pragma omp simd
        for (long col = begin; col < end; ++col) {
          const bool in_d_q = col < d_q_end;
          const float d_q_i = in_d_q ? d_q_row[col] : 0.0f;
          const bool before_d_v = col < d_k_end;
          const float d_k_i = !in_d_q && before_d_v ? d_k_row[col - d_q_end] : 0.0f;
          const float d_v_i = !before_d_v ? d_v_row[col - d_k_end] : 0.0f;
          const float d_qkv_out_i = in_d_q ? d_q_i : before_d_v ? d_k_i : d_v_i;

          col_sum[col] += d_qkv_out_i;
          d_qkv_out_row[col] = d_qkv_out_i;
        }
      }
    }
  }

#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long col = 0; col < n_cols; ++col) {
    double col_sum = partial[col];
    // In order, so that the result does not depend on the number of threads.
    for (long split = 1; split < n_splits; ++split) {
      col_sum += partial[split * n_cols + col];
    }
    d_bias[col] = col_sum;
  }
}
