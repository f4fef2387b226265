// mul_and_d_layer_norm_columns: d_ln_f = gpt_targets * d_cross_entropy_loss; d_bias = sum(d_ln_f).
//
//     GPT.forward    return self.head(self.ln_f(x))
//
// Reads gpt_targets once, writes d_ln_f and d_bias once; d_cross_entropy_loss stays in cache.

#include <algorithm>

constexpr long COLS = 256;     // columns that are accumulated at a time
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of columns; it walks down the rows.
extern "C" void mul_and_d_layer_norm_columns(
    const float *gpt_targets,           // (n_rows, n_cols)
    const float *d_cross_entropy_loss,  // one element
    float *d_ln_f,                      // (n_rows, n_cols)
    float *d_bias,                      // (n_cols,)
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long begin = 0; begin < n_cols; begin += COLS) {
    const long end = std::min(begin + COLS, n_cols);
    double d_gpt_ln_f_bias[COLS];
    std::fill_n(d_gpt_ln_f_bias, COLS, 0.0);

    for (long row = 0; row < n_rows; ++row) {
      const float *gpt_targets_row = gpt_targets + row * n_cols;
      float *d_ln_f_row = d_ln_f + row * n_cols;
      const float d_cross_entropy_loss_value = d_cross_entropy_loss[0];
#pragma omp simd
      for (long col = begin; col < end; ++col) {
        const float d_ln_f_value = gpt_targets_row[col] * d_cross_entropy_loss_value;
        d_gpt_ln_f_bias[col - begin] += d_ln_f_value;
        d_ln_f_row[col] = d_ln_f_value;
      }
    }
#pragma omp simd
    for (long col = begin; col < end; ++col) {
      d_bias[col] = d_gpt_ln_f_bias[col - begin];
    }
  }
}
