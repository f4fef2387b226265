// d_gelu: hidden = gelu(widen_out); d_widen_out = d_hidden * gelu'(widen_out); d_bias = sum(d_widen_out).
//
//     Mlp.forward    hidden = F.gelu(self.widen(x), approximate="tanh")
//
// Reads widen_out and d_hidden once, writes hidden, d_widen_out and d_bias once.

#include "vector_math.h"

#include <algorithm>
#include <vector>

constexpr float TWO_SQRT_2_OVER_PI = 1.5957692f;
constexpr long ROWS = 32;     // rows per chunk, at least
constexpr long COLS = 1024;   // columns that are accumulated at a time
constexpr long SPLITS = 256;  // chunks of the rows, at most
constexpr long GRAIN = 4096;  // elements below which one thread does it all

// One thread per chunk of rows and block of columns. The chunks' sums are added up in double.
extern "C" void d_gelu(
    const float *widen_out,  // (n_rows, n_cols)
    const float *d_hidden,   // (n_rows, n_cols)
    float *hidden,           // (n_rows, n_cols)
    float *d_widen_out,      // (n_rows, n_cols); may be d_hidden
    float *d_bias,           // (n_cols,)
    long n_rows,
    long n_cols) {
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
        const float *widen_out_row = widen_out + row * n_cols;
        const float *d_hidden_row = d_hidden + row * n_cols;
        float *hidden_row = hidden + row * n_cols;
        float *d_widen_out_row = d_widen_out + row * n_cols;
#pragma omp simd
        for (long col = begin; col < end; ++col) {
          const float widen_out_i = widen_out_row[col];
          const float widen_out_i_squared = widen_out_i * widen_out_i;
          const float cubic = widen_out_i + widen_out_i_squared * widen_out_i * 0.044715f;
          const float sigmoid = 1.0f / (1.0f + vector_exp(-(cubic * TWO_SQRT_2_OVER_PI)));
          const float hidden_i = widen_out_i * sigmoid;
          const float d_cubic = widen_out_i_squared * 0.134145f + 1.0f;
          const float d_widen_out_i =
              d_hidden_row[col] * (sigmoid + hidden_i * (1.0f - sigmoid) * (d_cubic * TWO_SQRT_2_OVER_PI));

          col_sum[col] += d_widen_out_i;
          hidden_row[col] = hidden_i;
          d_widen_out_row[col] = d_widen_out_i;
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
