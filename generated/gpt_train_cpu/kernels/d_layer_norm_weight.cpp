// d_layer_norm_weight: d_weight = sum(d_ln_f * normalized), column by column.
//
//     GPT.forward    return self.head(self.ln_f(x))
//
// Reads d_ln_f and normalized once, writes d_weight once.

#include <algorithm>

constexpr long COLS = 256;     // columns that are accumulated at a time
constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of columns; it walks down the rows.
extern "C" void d_layer_norm_weight(
    const float *d_ln_f,      // (n_rows, n_cols)
    const float *normalized,  // (n_rows, n_cols)
    float *d_weight,          // (n_cols,)
    long n_rows,
    long n_cols) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long begin = 0; begin < n_cols; begin += COLS) {
    const long end = std::min(begin + COLS, n_cols);
    double col_sum[COLS];
    std::fill_n(col_sum, COLS, 0.0);

    for (long row = 0; row < n_rows; ++row) {
      const float *d_ln_f_row = d_ln_f + row * n_cols;
      const float *normalized_row = normalized + row * n_cols;
#pragma omp simd
      for (long col = begin; col < end; ++col) {
        col_sum[col - begin] += d_ln_f_row[col] * normalized_row[col];
      }
    }
#pragma omp simd
    for (long col = begin; col < end; ++col) {
      d_weight[col] = col_sum[col - begin];
    }
  }
}
