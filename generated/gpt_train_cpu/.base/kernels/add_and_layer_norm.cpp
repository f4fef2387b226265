// add_and_layer_norm: residual = x + y; normed = layer_norm(residual), row by row.
//
//     Block.forward    x = x + self.attn(self.ln_1(x))
//     Block.forward    return x + self.mlp(self.ln_2(x))
//
// Reads x and y once, writes residual and normed once; weight and bias stay in cache.

#include <cmath>

constexpr long GRAIN = 32768;  // elements below which one thread does it all

// One thread per block of rows; a row stays in cache between the loops. Sums in double.
extern "C" void add_and_layer_norm(
    const float *x,       // (n_rows, n_cols)
    const float *y,       // (n_rows, n_cols)
    const float *weight,  // (n_cols,)
    const float *bias,    // (n_cols,)
    float *residual,      // (n_rows, n_cols)
    float *normed,        // (n_rows, n_cols); may be y
    long n_rows,
    long n_cols,
    float eps) {
#pragma omp parallel for if (n_rows * n_cols >= GRAIN)
  for (long row = 0; row < n_rows; ++row) {
    const float *x_row = x + row * n_cols;
    const float *y_row = y + row * n_cols;
    float *residual_row = residual + row * n_cols;
    float *normed_row = normed + row * n_cols;

    double row_sum = 0.0;
#pragma omp simd reduction(+ : row_sum)
    for (long col = 0; col < n_cols; ++col) {
      const float residual_i = x_row[col] + y_row[col];
      residual_row[col] = residual_i;
      row_sum += residual_i;
    }
    const float mean = row_sum / n_cols;

    double sum_of_squares = 0.0;
#pragma omp simd reduction(+ : sum_of_squares)
    for (long col = 0; col < n_cols; ++col) {
      const float centered = residual_row[col] - mean;
      sum_of_squares += centered * centered;
    }
    const float variance = sum_of_squares / n_cols;
    const float rstd = 1.0f / std::sqrt(variance + eps);

#pragma omp simd
    for (long col = 0; col < n_cols; ++col) {
      const float centered = residual_row[col] - mean;
      const float normalized = centered * rstd;
      normed_row[col] = normalized * weight[col] + bias[col];
    }
  }
}
