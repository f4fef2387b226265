// gelu_and_d_gelu_column_sum: hidden = gelu(widen); d_widen = d_gelu(d_hidden, widen); d_bias = sum(d_widen),
// column by column.
//
//     Mlp.forward    hidden = F.gelu(self.widen(x), approximate="tanh")
//
// Reads widen and d_hidden once, writes hidden, d_widen and d_bias once.

#include "vector_math.h"

#include <algorithm>

constexpr float TWO_SQRT_2_OVER_PI = 1.5957692f;
constexpr long COLS = 256;    // columns that are accumulated at a time
constexpr long GRAIN = 4096;  // elements below which one thread does it all

// One thread per block of columns; it walks down the rows.
extern "C" void gelu_and_d_gelu_column_sum(
    const float *widen,     // (n_rows, n_cols)
    const float *d_hidden,  // (n_rows, n_cols)
    float *hidden,          // (n_rows, n_cols)
    float *d_widen,         // (n_rows, n_cols); may be d_hidden
    float *d_bias,          // (n_cols,)
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long begin = 0; begin < n_cols; begin += COLS) {
    const long end = std::min(begin + COLS, n_cols);
    double col_sum[COLS];
    std::fill_n(col_sum, COLS, 0.0);

    for (long row = 0; row < n_rows; ++row) {
      const float *widen_row = widen + row * n_cols;
      const float *d_hidden_row = d_hidden + row * n_cols;
      float *hidden_row = hidden + row * n_cols;
      float *d_widen_row = d_widen + row * n_cols;
#pragma omp simd
      for (long col = begin; col < end; ++col) {
        const float widen_value = widen_row[col];
        const float widen_value_squared = widen_value * widen_value;
        const float cubic = widen_value + widen_value_squared * widen_value * 0.044715f;
        const float mlp_tanh = tanhf(cubic * 0.7978846f);
        const float product = widen_value * 0.5f * (1.0f - mlp_tanh * mlp_tanh);
        const float scaled = (widen_value_squared * 0.134145f + 1.0f) * 0.7978846f;
        const float d_widen_value = d_hidden_row[col] * ((mlp_tanh + 1.0f) * 0.5f + product * scaled);

        col_sum[col - begin] += d_widen_value;
        hidden_row[col] = widen_value * (1.0f / (1.0f + vector_exp(-(cubic * TWO_SQRT_2_OVER_PI))));
        d_widen_row[col] = d_widen_value;
      }
    }
#pragma omp simd
    for (long col = begin; col < end; ++col) {
      d_bias[col] = col_sum[col - begin];
    }
  }
}
