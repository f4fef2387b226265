// mul_d_layer_norm: d_ln_f, d_bias and d_weight by mul and sum in one pass, column by column.
//
//     GPT.forward    return self.head(self.ln_f(x))
//
// Reads gpt_targets and gpt once, writes d_ln_f, d_bias and d_weight once; d_cross_entropy_loss stays in
// cache.

#include <algorithm>

constexpr long COLS = 256;     // columns that are accumulated at a time
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of columns; it walks down the rows.
extern "C" void mul_d_layer_norm(
    const float *gpt_targets,           // (n_rows, n_cols)
    const float *d_cross_entropy_loss,  // one element
    const float *gpt,                   // (n_rows, n_cols)
    float *d_ln_f,                      // (n_rows, n_cols)
    float *d_bias,                      // (n_cols,)
    float *d_weight,                    // (n_cols,)
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long begin = 0; begin < n_cols; begin += COLS) {
    const long end = std::min(begin + COLS, n_cols);
    float d_gpt_ln_f_bias[COLS];
    float d_gpt_ln_f_weight[COLS];
    std::fill_n(d_gpt_ln_f_bias, COLS, 0.0f);
    std::fill_n(d_gpt_ln_f_weight, COLS, 0.0f);

    for (long row = 0; row < n_rows; ++row) {
      const float *gpt_targets_row = gpt_targets + row * n_cols;
      const float *gpt_row = gpt + row * n_cols;
      float *d_ln_f_row = d_ln_f + row * n_cols;
      const float d_cross_entropy_loss_value = d_cross_entropy_loss[0];
#pragma omp simd
      for (long col = begin; col < end; ++col) {
        const float product = gpt_targets_row[col] * d_cross_entropy_loss_value;
        d_gpt_ln_f_bias[col - begin] += product;
        d_gpt_ln_f_weight[col - begin] += product * gpt_row[col];
        d_ln_f_row[col] = product;
      }
    }
#pragma omp simd
    for (long col = begin; col < end; ++col) {
      d_bias[col] = d_gpt_ln_f_bias[col - begin];
      d_weight[col] = d_gpt_ln_f_weight[col - begin];
    }
  }
}
