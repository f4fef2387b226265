// d_layer_norm_weight_and_bias_ln_f: d_weight = sum(d_ln_f * normalized); d_bias = sum(d_ln_f).
//
//     GPT.forward    return self.head(self.ln_f(x))
//
// Reads d_ln_f and normalized once, writes d_weight and d_bias once.

#include <algorithm>

constexpr long COLS = 256;     // columns that are accumulated at a time
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of columns; it walks down the rows.
extern "C" void d_layer_norm_weight_and_bias_ln_f(
    const float *d_ln_f,      // (n_rows, n_cols)
    const float *normalized,  // (n_rows, n_cols)
    float *d_weight,          // (n_cols,)
    float *d_bias,            // (n_cols,)
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long begin = 0; begin < n_cols; begin += COLS) {
    const long end = std::min(begin + COLS, n_cols);
    double d_weight_sum[COLS];
    double d_bias_sum[COLS];
    std::fill_n(d_weight_sum, COLS, 0.0);
    std::fill_n(d_bias_sum, COLS, 0.0);

    for (long row = 0; row < n_rows; ++row) {
      const float *d_ln_f_row = d_ln_f + row * n_cols;
      const float *normalized_row = normalized + row * n_cols;
#pragma omp simd
      for (long col = begin; col < end; ++col) {
        const float d_ln_f_value = d_ln_f_row[col];
        d_weight_sum[col - begin] += d_ln_f_value * normalized_row[col];
        d_bias_sum[col - begin] += d_ln_f_value;
      }
    }
#pragma omp simd
    for (long col = begin; col < end; ++col) {
      d_weight[col] = d_weight_sum[col - begin];
      d_bias[col] = d_bias_sum[col - begin];
    }
  }
}
