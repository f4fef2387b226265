// d_layer_norm_columns_and_sum: d_bias = sum(d_ln_2); d_weight = sum(d_ln_2 * ln_2), column by column.
//
//     Block.forward    return x + self.mlp(self.ln_2(x))
//
// Reads d_ln_2 and ln_2 once, writes d_bias and d_weight once.

#include <algorithm>

constexpr long COLS = 256;     // columns that are accumulated at a time
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of columns; it walks down the rows.
extern "C" void d_layer_norm_columns_and_sum(
    const float *d_ln_2,  // (n_rows, n_cols)
    const float *ln_2,    // (n_rows, n_cols)
    float *d_bias,        // (n_cols,)
    float *d_weight,      // (n_cols,)
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long begin = 0; begin < n_cols; begin += COLS) {
    const long end = std::min(begin + COLS, n_cols);
    double d_gpt_blocks_3_ln_2_bias[COLS];
    double d_gpt_blocks_3_ln_2_weight[COLS];
    std::fill_n(d_gpt_blocks_3_ln_2_bias, COLS, 0.0);
    std::fill_n(d_gpt_blocks_3_ln_2_weight, COLS, 0.0);

    for (long row = 0; row < n_rows; ++row) {
      const float *d_ln_2_row = d_ln_2 + row * n_cols;
      const float *ln_2_row = ln_2 + row * n_cols;
#pragma omp simd
      for (long col = begin; col < end; ++col) {
        const float d_ln_2_value = d_ln_2_row[col];
        d_gpt_blocks_3_ln_2_bias[col - begin] += d_ln_2_value;
        d_gpt_blocks_3_ln_2_weight[col - begin] += d_ln_2_value * ln_2_row[col];
      }
    }
#pragma omp simd
    for (long col = begin; col < end; ++col) {
      d_bias[col] = d_gpt_blocks_3_ln_2_bias[col - begin];
      d_weight[col] = d_gpt_blocks_3_ln_2_weight[col - begin];
    }
  }
}
