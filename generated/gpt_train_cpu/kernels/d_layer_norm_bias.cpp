// d_layer_norm_bias: d_ln_f = unscaled_d_ln_f * d_loss; d_bias = sum(d_ln_f), column by column.
//
//     GPT.forward    return self.head(self.ln_f(x))
//
// Reads unscaled_d_ln_f once, writes d_ln_f and d_bias once; d_loss stays in cache.

#include <algorithm>

constexpr long COLS = 256;     // columns that are accumulated at a time
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of columns; it walks down the rows.
extern "C" void d_layer_norm_bias(
    const float *unscaled_d_ln_f,  // (n_rows, n_cols)
    const float *d_loss,           // one element
    float *d_ln_f,                 // (n_rows, n_cols)
    float *d_bias,                 // (n_cols,)
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long begin = 0; begin < n_cols; begin += COLS) {
    const long end = std::min(begin + COLS, n_cols);
    double col_sum[COLS];
    std::fill_n(col_sum, COLS, 0.0);

    for (long row = 0; row < n_rows; ++row) {
      const float *unscaled_d_ln_f_row = unscaled_d_ln_f + row * n_cols;
      float *d_ln_f_row = d_ln_f + row * n_cols;
      const float d_loss_value = d_loss[0];
#pragma omp simd
      for (long col = begin; col < end; ++col) {
        const float d_ln_f_value = unscaled_d_ln_f_row[col] * d_loss_value;
        col_sum[col - begin] += d_ln_f_value;
        d_ln_f_row[col] = d_ln_f_value;
      }
    }
#pragma omp simd
    for (long col = begin; col < end; ++col) {
      d_bias[col] = col_sum[col - begin];
    }
  }
}
